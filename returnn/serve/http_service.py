"""
`HttpService`: a small HTTP server for people on this machine, and for those that the one who starts it lets in.

What comes from outside is limited: size and time of a request, and how many there are at a time. Paths are keys of a
dict and never names of files. Pages of other sites may not ask (`Origin`), also not by a name that they let point to
this machine (`Host`). Each error is JSON, `{"error": text}`.
"""

from __future__ import annotations

import contextlib
import io
import json
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from returnn.log import log
from returnn.util.errors import UserError
from returnn.util.texts.counted import counted

JSON = "application/json; charset=utf-8"
HTML = "text/html; charset=utf-8"
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_CHUNK_BYTES = 64 * 1024
_MAX_SILENT = 256  # connections beside those that are answered
_LIMIT_TO_DRAIN_S = 2.0  # an upload that was refused: for so long the rest is taken, so that the answer is seen
_LIMIT_TO_END_S = 2.0  # for answers that are on their way when the service ends
_PAGE_RULES = (  # what our pages may do, whatever is in them
    "default-src 'none'; img-src 'self' data:; media-src data:; connect-src 'self'; frame-ancestors 'none'; "
    "script-src 'unsafe-inline'; style-src 'unsafe-inline'"
)


class HttpError(Exception):
    """An answer that says what is wrong."""

    def __init__(self, status: int, text: str) -> None:
        """
        :param status: of HTTP
        :param text: for people
        """
        super().__init__(text)
        self.status = status


@dataclass(frozen=True)
class Limits:
    """What one may ask of the service."""

    max_bytes: int = 16 * 1024**2  # of a request
    timeout_s: float = 60.0  # from its first byte to the last one of its answer
    max_requests: int = 64  # at a time


@dataclass(frozen=True)
class Request:
    """What somebody asks."""

    content_type: str = ""  # without parameters, in small letters
    body: bytes = b""
    query: Mapping[str, str] = field(default_factory=dict)
    deadline_s: float = 0.0  # as of `time.monotonic`


@dataclass(frozen=True)
class Answer:
    """What is sent back."""

    body: bytes
    content_type: str

    @classmethod
    def of(cls, content: Any) -> Answer:
        """:return: as JSON"""
        return cls(json.dumps(content, ensure_ascii=False, allow_nan=False).encode("utf8") + b"\n", JSON)


Route = tuple[str, Callable[[Request], Answer]]  # method of HTTP, and what answers


class HttpService(ThreadingHTTPServer):
    """Answers in threads while it is entered."""

    daemon_threads = True  # one that hangs does not keep the process
    request_queue_size = 128

    def __init__(self, host: str, port: int, routes: Mapping[str, Route], *, limits: Limits, option: str) -> None:
        """
        :param host: name or address of this machine; "" for all of its addresses
        :param port: 0: any that is free
        :param routes: by path
        :param limits: of requests
        :param option: which the user changes to get another place
        :raises UserError: if host and port cannot be used
        """
        self.routes = routes
        self.limits = limits
        self._free = threading.BoundedSemaphore(limits.max_requests)
        self._num_active = 0
        self._has_ended = threading.Condition()
        self._is_local = host in _LOOPBACK
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as exc:
            reason = (getattr(exc, "strerror", None) or str(exc)).rstrip(".")
            raise UserError(f"{option}: cannot listen at {host!r}, port {port}: {reason}.") from exc
        shown_host = f"[{host}]" if ":" in host else host or "0.0.0.0"
        self.url = f"http://{shown_host}:{self.server_port}"

    def server_bind(self) -> None:
        """The same, but does not ask the network for the name of the machine, which may take long."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        name, self.server_port = self.server_address[:2]
        self.server_name = str(name)

    @contextlib.contextmanager
    def running(self, *, on_end: Callable[[], None] = lambda: None) -> Iterator[None]:
        """
        The context in which it answers. At the end, answers that are on their way get two seconds.

        :param on_end: called when no more requests are accepted
        """
        thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.1}, name="http", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self.shutdown()
            thread.join()
            on_end()
            with self._has_ended:
                self._has_ended.wait_for(lambda: not self._num_active, timeout=_LIMIT_TO_END_S)
            self.server_close()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Starts a thread for a connection, unless so many are there that say nothing."""
        with self._has_ended:
            has_room = self._num_active < self.limits.max_requests + _MAX_SILENT
            self._num_active += has_room
        if has_room:
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """One request, in its thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._has_ended:
                self._num_active -= 1
                self._has_ended.notify_all()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that is gone is no error of ours."""
        print(f"http: {client_address[0]}: {traceback.format_exc()}", file=log.v5)

    @contextlib.contextmanager
    def place_for_request(self) -> Iterator[None]:
        """:raises HttpError: if there are too many"""
        if not self._free.acquire(blocking=False):
            raise HttpError(
                503,
                f"busy: {self.limits.max_requests} can be answered at once. Try again later.",
            )
        try:
            yield
        finally:
            self._free.release()

    def check_origin(self, host: str, origin: str | None) -> None:
        """
        :param host: the header `Host`
        :param origin: the header `Origin`, which browsers send with what a page asks for
        :raises HttpError: if a page of another site asks
        """
        try:
            site = None if origin is None else urlsplit(origin).netloc
            name = urlsplit(f"//{host}").hostname
        except ValueError as exc:
            raise HttpError(400, f"Host is {host!r}: {exc}.") from None
        if site not in (None, host):
            raise HttpError(403, f"pages of {origin!r} may not ask here.")
        if self._is_local and name not in _LOOPBACK:
            raise HttpError(403, f"this listens to this machine alone, and has no name {name!r}.")


class _Handler(BaseHTTPRequestHandler):
    server: HttpService
    server_version = "returnn"
    sys_version = ""

    def setup(self) -> None:
        self.deadline_s = time.monotonic() + self.server.limits.timeout_s
        super().setup()
        self.rfile = io.BufferedReader(_ReadUntil(self.connection, self.deadline_s))

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    do_PUT = do_PATCH = do_DELETE = do_POST  # no path is for them, and the answer says for what it is

    def _answer(self) -> None:
        self._left_bytes = 0  # of the request that were not read
        try:
            self._left_bytes = self._length()
            with self.server.place_for_request():
                answer = self._answer_of_route()
        except HttpError as exc:
            self._send(exc.status, Answer.of({"error": str(exc)}))
            self._drain()
        except UserError as exc:
            self._send(400, Answer.of({"error": str(exc)}))
        except Exception as exc:  # noqa: BLE001 (the service goes on, whatever a model or a file does)
            print(f"http: {self.path}: {traceback.format_exc()}", file=log.v1)
            self._send(500, Answer.of({"error": f"{type(exc).__name__}: {exc}"}))
        else:
            self._send(200, answer)

    def _answer_of_route(self) -> Answer:
        path, _, query_text = self.path.partition("?")
        self.server.check_origin(self.headers.get("Host", ""), self.headers.get("Origin"))
        if path not in self.server.routes:
            raise HttpError(404, f"there is no such path here. Possible: {', '.join(self.server.routes)}.")
        method, answer = self.server.routes[path]
        if method != self.command:
            paths = [path for path, (possible, _) in self.server.routes.items() if possible == self.command]
            hint = f" For {self.command}: {', '.join(paths)}." if paths else ""
            raise HttpError(405, f"{path} is for {method}, not for {self.command}.{hint}")
        body = self._body() if method == "POST" else b""
        query = {key: values[-1] for key, values in parse_qs(query_text).items()}
        return answer(Request(self.headers.get_content_type(), body, query, self.deadline_s))

    def _length(self) -> int:
        text = self.headers.get("Content-Length")
        if self.headers.get("Transfer-Encoding"):
            raise HttpError(411, "a request has to say its length by Content-Length; it cannot come in chunks.")
        if text is not None and not (text.isascii() and text.isdigit()):
            raise HttpError(400, f"Content-Length is {text!r}, expected a number of bytes.")
        return int(text or 0)

    def _body(self) -> bytes:
        if "Content-Length" not in self.headers:
            raise HttpError(411, "a request has to say its length by Content-Length.")
        limit = self.server.limits.max_bytes
        if self._left_bytes > limit:
            raise HttpError(
                413, f"the request has {counted(self._left_bytes, 'byte')}, and at most {limit} are possible."
            )
        try:
            body = self.rfile.read(self._left_bytes)
        except TimeoutError:
            limit_s = self.server.limits.timeout_s
            raise HttpError(408, f"the request did not arrive within {limit_s:g} seconds.") from None
        if len(body) < self._left_bytes:
            raise HttpError(400, f"the request ends after {len(body)} of {counted(self._left_bytes, 'byte')}.")
        self._left_bytes = 0
        return body

    def _drain(self) -> None:
        """Who still sends does not look at the answer, and an end of the connection would take it away."""
        end_s = min(self.deadline_s, time.monotonic() + _LIMIT_TO_DRAIN_S)
        reader = io.BufferedReader(_ReadUntil(self.connection, end_s))
        with contextlib.suppress(OSError):
            self.wfile.flush()
            while self._left_bytes > 0 and (data := reader.read1(min(_CHUNK_BYTES, self._left_bytes))):
                self._left_bytes -= len(data)

    def _send(self, status: int, answer: Answer) -> None:
        self.connection.settimeout(max(self.deadline_s - time.monotonic(), _LIMIT_TO_DRAIN_S))
        self.send_response(status)
        for name, value in {
            "Content-Type": answer.content_type,
            "Content-Length": str(len(answer.body)),
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "Content-Security-Policy": _PAGE_RULES,
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the base class has to say about a request that is none, or has another method."""
        self.connection.settimeout(_LIMIT_TO_DRAIN_S)
        body = Answer.of({"error": message or self.responses[code][0]})
        self.close_connection = True
        self.request_version = "HTTP/1.0"  # what is no request counts as one of HTTP/0.9, whose answers have no status
        self.send_response(code)
        self.send_header("Content-Type", body.content_type)
        self.send_header("Content-Length", str(len(body.body)))
        self.end_headers()
        self.wfile.write(body.body)

    def log_message(self, format: str, *args: Any) -> None:
        """Puts requests in the log."""
        print(f"http: {self.client_address[0]} {format % args}", file=log.v4)


class _ReadUntil(io.RawIOBase):
    """What comes from a socket until a point in time, however slowly it comes."""

    def __init__(self, connection: socket.socket, deadline_s: float) -> None:
        self._connection = connection
        self._deadline_s = deadline_s

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left_s = self._deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._connection.settimeout(left_s)
        return self._connection.recv_into(buffer)
