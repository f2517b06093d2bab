"""Directives that show files: ``{script}``, one that pages run; ``{kept-file}``, one that a command wrote."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from shown_commands import script_folders, working_folder
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


class ShownScript(SphinxDirective):
    """``{script} NAME`` shows it with the numbers of its lines; ``:emphasize: 7`` marks some."""

    required_arguments = 1
    option_spec: ClassVar = {"emphasize": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        """Show it, with its name above."""
        name = self.arguments[0]
        file = next(folder / name for folder in script_folders(Path(self.env.srcdir)) if (folder / name).exists())
        self.env.note_dependency(str(file))
        text = file.read_text(encoding="utf-8").rstrip("\n")
        marked = [int(number) for number in self.options.get("emphasize", "").split()]
        block = nodes.literal_block(
            text, text, language="python", linenos=True, highlight_args={"hl_lines": marked} if marked else {}
        )
        return [_with_name(name, block)]


class KeptFile(SphinxDirective):
    """``{kept-file} PATH``: what the commands above it on the page have written there."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Show it."""
        name = self.arguments[0]
        text = (working_folder(Path(self.env.srcdir), self.env.docname) / name).read_text(encoding="utf-8").rstrip("\n")
        return [_with_name(name, nodes.literal_block(text, text, language="text"))]


def _with_name(name: str, block: nodes.literal_block) -> nodes.Node:
    wrapper = nodes.container("", literal_block=True, classes=["literal-block-wrapper"])
    wrapper += nodes.caption("", name)
    wrapper += block
    return wrapper


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    app.add_directive("script", ShownScript)
    app.add_directive("kept-file", KeptFile)
    return {"parallel_read_safe": True}
