"""The page in a real JupyterLab: `make jupyterlab` runs this, as starting one takes longer than all tests of pages."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbformat.sign import NotebookNotary
from playwright.sync_api import Browser, Page, expect

from gradviz.inspection import Inspection
from tests.captures import small_capture
from tests.end_to_end.pages import started_browser
from tests.end_to_end.test_notebook_page import READY

PATIENCE = 60_000
"""Milliseconds that JupyterLab and its kernel may take on a busy machine."""
CODE = """\
import torch, gradviz
w = torch.ones(2, requires_grad=True)
gradviz.inspect(w.sin().sum())"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Notebooks: one that was never run, one that was run and saved here, and one that somebody else has sent."""
    folder = tmp_path_factory.mktemp("jupyterlab")
    output = nbformat.v4.new_output("execute_result", Inspection(small_capture())._repr_mimebundle_())
    output.execution_count = 1
    new, saved, sent = (nbformat.v4.new_notebook() for _ in range(3))
    new.cells = [nbformat.v4.new_code_cell(CODE)]
    new.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    saved.cells = [nbformat.v4.new_code_cell("recording", outputs=[output])]
    sent.cells = [nbformat.v4.new_code_cell("another", outputs=[output])]
    (folder / "data").mkdir()
    NotebookNotary(data_dir=str(folder / "data")).sign(saved)
    for name, notebook in (("new", new), ("saved", saved), ("sent", sent)):
        nbformat.write(notebook, folder / f"{name}.ipynb")
    return folder


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    """Where a JupyterLab serves that folder; with settings of its own."""
    places = {f"JUPYTER_{name}_DIR": str(folder / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")}
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ServerApp.port=0"]
    with subprocess.Popen(
        [*command, f"--ServerApp.root_dir={folder}", f"--LabApp.workspaces_dir={folder / 'workspaces'}"],
        env={**os.environ, **places, "IPYTHONDIR": str(folder / "ipython")},
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as server:
        assert server.stderr is not None
        told = (re.search(r"http://127\.0\.0\.1:(\d+)/lab\?token=(\w+)", line) for line in server.stderr)
        port, token = next(filter(None, told)).groups()
        yield f"http://127.0.0.1:{port}/lab/tree/{{}}?token={token}&reset"
        server.terminate()
        server.communicate(timeout=30)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with started_browser() as browser:
        yield browser


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1400, "height": 1000}, color_scheme="null")
    context.set_default_timeout(PATIENCE)
    yield context.new_page()
    context.close()


def test_a_cell_that_is_run_shows_the_page(page: Page, address: str) -> None:
    page.goto(address.format("new.ipynb"))
    page.locator(".jp-CodeCell .cm-content").click()
    prompt = page.locator(".jp-CodeCell .jp-InputPrompt")
    # JupyterLab says that the kernel is idle before it hands cells over to it; what is run earlier is forgotten.
    while prompt.inner_text() == "[ ]:":
        page.keyboard.press("Control+Enter")
        page.wait_for_timeout(500)
    frame = page.frame_locator(".jp-OutputArea iframe")
    frame.locator(READY).wait_for()
    frame.locator("#picture .item:has(text.t:text-is('sin')) text").first.click()
    expect(frame.locator("#panel h2")).to_have_text("sin")


def test_a_notebook_that_is_opened_again_still_has_it_in_the_theme_of_jupyterlab(page: Page, address: str) -> None:
    page.goto(address.format("saved.ipynb"))
    frame = page.frame_locator(".jp-OutputArea iframe")
    frame.locator(READY).wait_for()
    expect(frame.locator("html")).to_have_attribute("data-theme", "light")
    page.locator("body").evaluate("body => { body.dataset.jpThemeLight = 'false'; }")
    expect(frame.locator("html")).to_have_attribute("data-theme", "dark")


def test_a_notebook_that_is_not_trusted_shows_the_still_picture(page: Page, address: str) -> None:
    page.goto(address.format("sent.ipynb"))
    picture = page.locator(".jp-OutputArea img")
    picture.wait_for()
    assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") > 300
    expect(page.locator("iframe")).to_have_count(0)
