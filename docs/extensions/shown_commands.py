"""The directive ``{gradviz}``: runs a command while the documentation is built, and shows what it printed.

    ```{gradviz} check detached_encoder.py
    :exit-code: 1
    :shows: GV101
    ```

``:quiet:`` does not show the command, ``:picture:`` shows a file that it wrote, ``:page:`` one in a frame, and
``:screenshot: net.html#color=memory`` a still picture of one in a browser, opened at that view.
Each page has a folder of its own with a copy of the scripts, in which its commands run one after the other. A
command that exits with another code, or does not print what ``:shows:`` names, is a warning, and so fails the build.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from pathlib import Path
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from screenshots import take_screenshot
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from tests.end_to_end.command import GRADVIZ, gradviz, installed_python, python

WIDTH = "88"
# Commands such as torchrun are found where gradviz is.
_WITH_PROGRAMS = {"PATH": f"{GRADVIZ.parent}{os.pathsep}{os.environ.get('PATH', '')}"}
_WITH_WIDTH = ("tree", "check", "diff", "rules", "explain", "flow", "replay", "memory")


class ShownCommand(SphinxDirective):
    """Runs ``gradviz ARGUMENTS``, or ``python ARGUMENTS`` if they begin with that word."""

    required_arguments = 1
    final_argument_whitespace = True
    option_spec: ClassVar = {
        "exit-code": directives.nonnegative_int,
        "shows": directives.unchanged,
        "lines": directives.unchanged,
        "error": directives.flag,
        "quiet": directives.flag,
        "picture": directives.unchanged,
        "alt": directives.unchanged,
        "page": directives.unchanged,
        "screenshot": directives.unchanged,
        "height": directives.nonnegative_int,
    }

    def run(self) -> list[nodes.Node]:
        """Run it, check what it did, and show it."""
        folder = working_folder(Path(self.env.srcdir), self.env.docname)
        command = self.arguments[0]
        words = shlex.split(command)
        is_python = words[0] == "python"
        if is_python:
            run = (installed_python if words[1] == "-m" else python)(*words[1:], cwd=folder)
        else:
            has_width = words[0] in _WITH_WIDTH and "--width" not in words
            width = ["--width", WIDTH] if has_width else []
            run = gradviz(words[0], *width, *words[1:], cwd=folder, env=_WITH_PROGRAMS)
        printed = run.stderr if "error" in self.options else run.stdout
        self._check(command, run.exit_code, run.stdout, run.stderr)
        found: list[nodes.Node] = []
        if "quiet" not in self.options:
            shown = command if is_python else f"gradviz {command}"
            text = f"$ {shown}\n{_chosen(printed, self.options.get('lines'))}"
            found.append(nodes.literal_block(text, text, language="console"))
        if "picture" in self.options:
            found.append(self._picture(folder / self.options["picture"]))
        if "page" in self.options:
            found.append(self._frame(folder / self.options["page"]))
        if "screenshot" in self.options:
            found.append(self._screenshot(folder))
        return found

    def _check(self, command: str, exit_code: int, stdout: str, stderr: str) -> None:
        expected = self.options.get("exit-code", 0)
        if exit_code != expected:
            raise self.error(f"{command!r} exited with {exit_code} instead of {expected}:\n{stdout}\n{stderr}")
        for word in filter(None, map(str.strip, self.options.get("shows", "").split(";"))):
            if word not in _in_one_line(stdout + stderr):
                raise self.error(f"{command!r} does not print {word!r}:\n{stdout}\n{stderr}")

    def _picture(self, file: Path) -> nodes.Node:
        kept = _built(self.env.srcdir) / "pictures" / f"{_flat(self.env.docname)}_{file.name}"
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, kept)
        image = nodes.image(uri=f"/{kept.relative_to(self.env.srcdir).as_posix()}", alt=self.options.get("alt", ""))
        image["classes"].append("gradviz-picture")
        return image

    def _screenshot(self, folder: Path) -> nodes.Node:
        name, sign, view = self.options["screenshot"].partition("#")
        picture = folder / f"{Path(name).stem}_{len(list(folder.glob('*.shot.png')))}.shot.png"
        if take_screenshot(folder / name, sign + view, picture):
            return self._picture(picture)
        words = "This picture is taken in Chromium, which the machine that built this page does not have."
        return nodes.paragraph(words, words)

    def _frame(self, file: Path) -> nodes.Node:
        name = f"{_flat(self.env.docname)}_{file.name}"
        kept = _built(self.env.srcdir) / "pages" / "gradviz_pages" / name
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, kept)
        up = "../" * self.env.docname.count("/")
        address, height = f"{up}gradviz_pages/{name}", self.options.get("height", 560)
        return nodes.raw(
            "",
            f'<iframe class="gradviz-page" src="{address}" height="{height}" loading="lazy" '
            f'title="{self.options.get("alt", "the page of the graph")}"></iframe>'
            f'<p><a href="{address}">Open this page alone</a></p>',
            format="html",
        )


def working_folder(source: Path, docname: str) -> Path:
    """The folder in which the commands of a page run; made anew when the page is read."""
    return _built(source) / "work" / _flat(docname)


def script_folders(source: Path) -> tuple[Path, ...]:
    """Where the scripts are that pages show and run."""
    return source / "scripts", source.parent / "samples" / "course"


def _make_folder(app: Sphinx, docname: str, content: list[str]) -> None:
    if "{gradviz}" in content[0]:
        folder = working_folder(Path(app.srcdir), docname)
        shutil.rmtree(folder, ignore_errors=True)
        for scripts in script_folders(Path(app.srcdir)):
            shutil.copytree(scripts, folder, dirs_exist_ok=True)


def _built(source: str | Path) -> Path:
    return Path(source) / "built"


def _flat(docname: str) -> str:
    return docname.replace("/", "_")


def _in_one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def _chosen(text: str, lines: str | None) -> str:
    """The lines ``FIRST-LAST`` of a text, counted from 1, with a mark where some are left out."""
    if lines is None:
        return text.rstrip("\n")
    first, last = map(int, lines.split("-"))
    rows = text.rstrip("\n").split("\n")
    return "\n".join(["..."] * (first > 1) + rows[first - 1 : last] + ["..."] * (last < len(rows)))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("gradviz", ShownCommand)
    app.connect("source-read", _make_folder)
    return {"parallel_read_safe": True}
