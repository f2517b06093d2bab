"""The role ``{test}``: names the test that holds a claim, as ``{test}`end_to_end/test_diff.py::test_NAME```.

A test that does not exist is a warning, and so fails the build.
"""

from __future__ import annotations

from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxRole

_LOGGER = logging.getLogger(__name__)


class CitedTest(SphinxRole):
    """Shows the name of the test, which `pytest -k NAME` runs."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Look the test up in ``tests/``."""
        file, _, name = self.text.partition("::")
        path = Path(self.env.srcdir).parent / "tests" / file
        if not path.is_file() or f"def {name}(" not in path.read_text(encoding="utf-8"):
            _LOGGER.warning("there is no test %s", self.text, location=self.get_location())
        self.env.note_dependency(str(path))
        return [nodes.literal(name, name, classes=["gradviz-test"])], []


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the role."""
    app.add_role("test", CitedTest())
    return {"parallel_read_safe": True}
