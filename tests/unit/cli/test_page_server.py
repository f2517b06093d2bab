"""A served page: who can read it, and what it shows after its file has changed."""

from __future__ import annotations

from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from threading import Thread

import pytest

from gradviz.cli.serving.page_server import PageServer
from gradviz.cli.serving.served_page import ServedPage
from gradviz.errors import BadCapture


class Asker:
    """Requests a path below the secret part of the address, or any other path."""

    def __init__(self, server: PageServer) -> None:
        self.server = server

    def path(self, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
        connection = HTTPConnection("127.0.0.1", self.server.server_address[1], timeout=10)
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        content = answer.read().decode()
        connection.close()
        return answer.status, content

    def __call__(self, name: str, method: str = "GET", **headers: str) -> tuple[int, str]:
        return self.path(f"/{self.server.token}/{name}", method, **headers)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "words").write_text("one two", encoding="utf-8")
    return tmp_path / "words"


@pytest.fixture
def ask(file: Path) -> Iterator[Asker]:
    """Requests a page whose content is the first word of a file."""

    def draw(version: int) -> str:
        words = file.read_text(encoding="utf-8").split()
        if not words:
            raise BadCapture("there are no words")
        return words[0]

    with PageServer(None, ServedPage(draw, file)) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield Asker(server)
        server.shutdown()
        thread.join()


def test_who_knows_the_address_gets_the_page(ask: Asker) -> None:
    assert [ask(name) for name in ("", "?x")] == [(200, "one"), (200, "one")]
    assert ask("", "HEAD") == (200, "")


@pytest.mark.parametrize("name", ["1", "%C2%B2", "9" * 9999, "../", "version/", "index.html"])
def test_other_names_lead_nowhere(ask: Asker, name: str) -> None:
    assert ask(name)[0] == 404


def test_who_does_not_know_the_address_gets_nothing(ask: Asker) -> None:
    token = ask.server.token
    assert len(token) > 20
    for path in ("/", "/version", f"/{token}", f"/{token[:-1]}/", f"/{token}x/1", "/%C3%A9/1"):
        assert ask.path(path)[0] == 404, path


def test_another_name_that_leads_here_gets_nothing(ask: Asker) -> None:
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "["):
        assert ask("", Host=host)[0] == 403, host
    assert ask("", Host="localhost:9000") == (200, "one")


def test_nothing_can_be_sent_to_it(ask: Asker) -> None:
    assert ask("", "POST")[0] == ask("", "PUT")[0] == 501


def test_the_page_follows_its_file(ask: Asker, file: Path) -> None:
    assert ask("version") == ask("version") == (200, "1")
    file.write_text("another", encoding="utf-8")
    assert (ask("version"), ask("")) == ((200, "2"), (200, "another"))


def test_what_cannot_be_shown_is_reported_once_and_the_page_stays(
    ask: Asker, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text("", encoding="utf-8")
    assert (ask("version"), ask("version"), ask("")) == ((200, "1"), (200, "1"), (200, "one"))
    assert capsys.readouterr().err == "gradviz: the page is unchanged: there are no words\n"
    file.unlink()
    assert ask("") == (200, "one")
    file.write_text("back", encoding="utf-8")
    assert (ask("version"), ask("")) == ((200, "2"), (200, "back"))
