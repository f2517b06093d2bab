"""Serves a page to browsers on this machine.

* Other users of this machine, and web pages in the same browser, must not read the page. So its address has a random
  part, and a request without it gets no answer. A request for another host name (DNS rebinding) is refused by its
  ``Host`` header.
* The page asks the server whether there is a newer version. The file is not watched while no page is open.
* Ctrl-C ends the server, even if the script has changed the handler of that signal.
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
from gradviz.cli.terminal.printing import print_text
from gradviz.errors import BadInput

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
    """Raise `BadInput`, before the script runs, if the port cannot be used. It is not kept open."""
    PageServer(port, None).server_close()


def serve(page: ServedPage, port: int | None) -> None:
    """Open the page in the browser, and serve until Ctrl-C."""
    with PageServer(port, page) as server:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            is_open = open_in_browser(server.address)
            opened = ", opened in the browser" if is_open else ""
            print_text(f"serving {server.address}{opened}; Ctrl-C ends it\n")
            server.serve_forever()
        except KeyboardInterrupt:
            print_text("\n")  # below the ^C


class PageServer(ThreadingTCPServer):
    """Listens on this machine only, and answers only requests to `address`."""

    daemon_threads = True
    block_on_close = False
    # On Windows, True would allow two servers on one port.
    allow_reuse_address = sys.platform != "win32"

    def __init__(self, port: int | None, page: ServedPage | None) -> None:
        """Listen on `port`, or else on any free port."""
        self.page = page
        self.token = token_urlsafe(16)
        try:
            super().__init__((HOST, port or 0), _Handler)
        except OSError as error:
            where = f"port {port}" if port else HOST
            if error.errno == errno.EADDRINUSE:
                raise BadInput(f"{where} is in use", hint="choose another one, or leave out --port") from error
            hint = "leave out --port" if port else None
            raise BadInput(f"cannot serve at {where}: {error.strerror}", hint=hint) from error

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.server_address[1]}/{self.token}/"

    def answer(self, path: str) -> tuple[str, str] | None:
        """The content and its type; None for an unknown path or a wrong random part."""
        path, _, _ = path.partition("?")
        start, _, name = path.rpartition("/")
        if self.page is None or not compare_digest(start.encode(), f"/{self.token}".encode()):
            return None
        self.page.update()
        if name == "version":
            return str(self.page.version), _TEXT
        return None if name else (self.page.content, _PAGE)

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a browser that closes the connection during an answer."""
        if not isinstance(sys.exc_info()[1], (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    timeout = 10
    """Seconds to wait for a request."""
    server_version = "gradviz"
    sys_version = ""

    def do_GET(self) -> None:
        if not self._has_own_host_name():
            self._send(403, "only http://127.0.0.1 and http://localhost are served\n", _TEXT)
        elif (answer := self.server.answer(self.path)) is not None:
            self._send(200, *answer)
        else:
            self._send(404, "there is no such page: 'gradviz view --serve' prints the address\n", _TEXT)

    do_HEAD = do_GET

    def _has_own_host_name(self) -> bool:
        """Whether ``Host`` names this machine; at any port, as the port may be forwarded from another machine."""
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
        """Log nothing: the address of a request is a secret."""
