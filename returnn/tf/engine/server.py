"""
Search over HTTP, for demos: task `search_server`, option `web_server_port`.

    curl -d '{"input": "some text"}' http://localhost:12380/search

`input` is text, if the default input has a vocabulary, or the sequence itself: labels, or a list of vectors. The answer
is `{"output": ...}` with the hypotheses, or `{"error": ...}`. One request is worked on after the other, and only
requests of the same machine are answered.
"""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from returnn.log import log
from returnn.tf.engine.outputs.single_seqs import SingleSeqs
from returnn.util.errors import UserError

_HOST = "localhost"
_PATH = "/search"
_MAX_BYTES = 64 * 1024**2


class SearchServer(HTTPServer):
    """To be used as a context: it has a socket."""

    def __init__(self, single_seqs: SingleSeqs, port: int) -> None:
        """
        :param single_seqs: of a network in search
        :param port: 0: any that is free
        :raises UserError: if the port is in use
        """
        self.single_seqs = single_seqs
        try:
            super().__init__((_HOST, port), _Handler)
        except OSError as exc:
            raise UserError(f"option 'web_server_port': cannot use port {port}: {exc.strerror}.") from exc
        print(f"search: http://{_HOST}:{self.server_port}{_PATH}", file=log.v1)

    def answer(self, request: dict[str, Any]) -> Any:
        """
        :param request: with the key "input"
        :return: hypotheses
        :raises UserError: if it makes no sense
        """
        if not isinstance(request, dict) or "input" not in request:
            raise UserError("expected JSON: a dict with the key 'input'")
        sources = request["input"]
        with self.single_seqs.session.built.graph.as_default():
            if isinstance(sources, str):
                return self.single_seqs.search_text(sources)
            return self.single_seqs.search_frames(sources)


class _Handler(BaseHTTPRequestHandler):
    server: SearchServer

    def do_POST(self) -> None:
        """Answers a request."""
        if self.path != _PATH:
            self._reply(404, {"error": f"there is only {_PATH}"})
            return
        try:
            num_bytes = min(int(self.headers.get("Content-Length") or 0), _MAX_BYTES)
            self._reply(200, {"output": self.server.answer(json.loads(self.rfile.read(num_bytes)))})
        except (UserError, ValueError, TypeError) as exc:
            self._reply(400, {"error": str(exc)})

    def do_GET(self) -> None:
        """Says how to ask."""
        self._reply(200, {"usage": f"POST {_PATH} with {{'input': text or sequence}}"})

    def _reply(self, status: int, content: dict[str, Any]) -> None:
        data = json.dumps(content, ensure_ascii=False).encode("utf8") + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Puts requests in the log."""
        print(f"search: {self.address_string()} {format % args}", file=log.v4)
