"""Serves a page to browsers on this machine.

Problems solved here:

* Other people on this machine, and web pages that are open in the same browser, could ask for the page as well. So
  its address has a random part, and only who knows it gets an answer. A name that somebody points at this machine
  (DNS rebinding) is refused by the ``Host`` that the browser then sends.
* A page learns by asking that there is a newer one: nothing is watched while nobody looks.
* Ctrl-C ends it whatever the script that was run has made of that signal.
"""

from __future__ import annotations

import errno
import signal
import sys
from http.server import BaseHTTPRequestHandler
from secrets import compare_digest, token_urlsafe
from socketserver import ThreadingTCPServer
from urllib.parse import urlsplit

from gradviz.browser import open_in_browser
from gradviz.cli.serving.served_page import ServedPage
from gradviz.errors import BadInput
from gradviz.output import write_output

HOST = "127.0.0.1"
_OWN_NAMES = (HOST, "localhost")
_PAGE, _TEXT = "text/html; charset=utf-8", "text/plain; charset=utf-8"
_PROTECTION = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def check_port(port: int | None) -> None:
    """Raise `BadInput` where nothing can be served there: before the script runs, and without keeping the port."""
    PageServer(port, None).server_close()


def serve(page: ServedPage, port: int | None) -> None:
    """Open the page in the browser, and serve until Ctrl-C."""
    with PageServer(port, page) as server:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            is_open = open_in_browser(server.address)
            opened = ", opened in the browser" if is_open else ""
            write_output("-", f"serving {server.address}{opened}; Ctrl-C ends it\n")
            server.serve_forever()
        except KeyboardInterrupt:
            write_output("-", "\n")  # below the ^C


class PageServer(ThreadingTCPServer):
    """Listens on this machine only, to what knows `address`."""

    daemon_threads = True
    block_on_close = False
    # On Windows it would let two servers have the same port.
    allow_reuse_address = sys.platform != "win32"

    def __init__(self, port: int | None, page: ServedPage | None) -> None:
        """At `port`, or else at any that is free."""
        self.page = page
        self.token = token_urlsafe(16)
        try:
            super().__init__((HOST, port or 0), _Handler)
        except OSError as error:
            where = f"port {port}" if port else HOST
            if error.errno == errno.EADDRINUSE:
                raise BadInput(f"{where} is in use", hint="choose another one, or leave --port out") from error
            hint = "leave --port out" if port else None
            raise BadInput(f"cannot serve at {where}: {error.strerror}", hint=hint) from error

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.server_address[1]}/{self.token}/"

    def answer(self, path: str) -> tuple[str, str] | None:
        """Content and its type; None for a path that leads nowhere, or whose random part is wrong."""
        path, _, _ = path.partition("?")
        start, _, name = path.rpartition("/")
        if self.page is None or not compare_digest(start.encode(), f"/{self.token}".encode()):
            return None
        self.page.follow()
        if name == "version":
            return str(self.page.version), _TEXT
        return None if name else (self.page.content, _PAGE)

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that went away in the middle of an answer is no error."""
        if not isinstance(sys.exc_info()[1], (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    timeout = 10
    """Seconds for a request to arrive."""
    server_version = "gradviz"
    sys_version = ""

    def do_GET(self) -> None:
        if not self._is_asked_for_by_name():
            self._send(403, "this is served to http://127.0.0.1 and http://localhost only\n", _TEXT)
        elif (answer := self.server.answer(self.path)) is not None:
            self._send(200, *answer)
        else:
            self._send(404, "there is no such page: 'gradviz view --serve' prints the address\n", _TEXT)

    do_HEAD = do_GET

    def _is_asked_for_by_name(self) -> bool:
        """At any port, as it may be forwarded from another machine."""
        try:
            return urlsplit(f"//{self.headers.get('Host', '')}").hostname in _OWN_NAMES
        except ValueError:
            return False

    def _send(self, code: int, content: str, kind: str) -> None:
        data = content.encode("utf-8", "backslashreplace")
        self.send_response(code)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(data)), **_PROTECTION}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is told of requests: the address that they name is a secret."""
