"""What is answered to requests of all kinds, also to those that mean harm."""

import contextlib
import threading

import pytest

from returnn.serve.http_service import HTML, Answer, HttpError, HttpService, Limits
from returnn.util.errors import UserError
from tests.serve.asking import LIMIT_S, ask, ask_bytes, ask_raw


def echo(request):
    return Answer.of({"body": request.body.decode("utf8"), "type": request.content_type, "query": dict(request.query)})


def fail(request):
    raise {"user": UserError("wrong"), "http": HttpError(415, "other"), "bug": KeyError("k")}[request.query["how"]]


@contextlib.contextmanager
def running(routes=None, host="localhost", **limits):
    routes = {"/": ("GET", lambda request: Answer(b"<p>", HTML)), "/echo": ("POST", echo), "/fail": ("GET", fail),
              **(routes or {})}  # fmt: skip
    service = HttpService(host, 0, routes, limits=Limits(**{"timeout_s": LIMIT_S, **limits}), option="option 'x'")
    with service.running():
        yield service


@pytest.fixture(scope="module")
def service():
    with running(max_bytes=1000) as made:
        yield made


def test_answers(service):
    assert ask_bytes(service.url + "/") == (200, b"<p>")
    expected = {"body": "ü", "type": "text/plain", "query": {"a": "2"}}
    assert ask(service.url + "/echo?a=1&a=2", "ü", content_type="text/plain; charset=utf-8") == (200, expected)


@pytest.mark.parametrize(
    "path", ["/other", "/echo//", "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/echo/", "/echo/../"]
)
def test_a_path_is_one_of_those_that_are_named(path, service):
    error = {"error": "there is no such path here. Possible: /, /echo, /fail."}
    assert ask_raw(service, f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n") == ("404 Not Found", error)


@pytest.mark.parametrize(
    ("how", "status", "text"), [("user", 400, "wrong"), ("http", 415, "other"), ("bug", 500, "KeyError: 'k'")]
)
def test_errors_are_json(how, status, text, service):
    assert ask(f"{service.url}/fail?how={how}") == (status, {"error": text})


_HOST = "HTTP/1.0\r\nHost: localhost"
_END = "\r\n\r\n"
WRONG_REQUESTS = {
    "method": (f"GET /echo {_HOST}{_END}", "405 Method Not Allowed", "/echo is for POST, not for GET."),
    "method of another path": (
        f"POST / {_HOST}{_END}",
        "405 Method Not Allowed",
        "/ is for GET, not for POST. For POST: /echo",
    ),
    "method of no path": (f"PUT / {_HOST}{_END}", "405 Method Not Allowed", "/ is for GET, not for PUT."),
    "unknown method": (f"BREW / {_HOST}{_END}", "501 Not Implemented", "Unsupported method ('BREW')"),
    "no length": (f"POST /echo {_HOST}{_END}", "411 Length Required", "has to say its length"),
    "chunked": (
        f"POST /echo {_HOST}\r\nTransfer-Encoding: chunked{_END}1\r\na\r\n0{_END}",
        "411 Length Required",
        "chunks",
    ),
    "negative": (f"POST /echo {_HOST}\r\nContent-Length: -5{_END}", "400 Bad Request", "is '-5', expected"),
    "short": (f"POST /echo {_HOST}\r\nContent-Length: 5{_END}ab", "400 Bad Request", "ends after 2 of 5"),
    "huge": (
        f"POST /echo {_HOST}\r\nContent-Length: 99999999999{_END}ab",
        "413 Request Entity Too Large",
        "has 99999999999 bytes, and at most 1000 are possible",
    ),
    "host": (f"GET / HTTP/1.0\r\nHost: evil.example:80{_END}", "403 Forbidden", "has no name 'evil.example'"),
    "origin": (
        f"GET / {_HOST}\r\nOrigin: http://evil.example{_END}",
        "403 Forbidden",
        "of 'http://evil.example' may not",
    ),
    "no host": (f"GET / HTTP/1.0\r\nHost: [{_END}", "400 Bad Request", "Host is '['"),
    "no path": (f"GET http://[/ {_HOST}{_END}", "404 Not Found", "no such path"),
    "nonsense": (f"nonsense{_END}", "400 Bad Request", "Bad request syntax"),
}


@pytest.mark.parametrize("kind", WRONG_REQUESTS)
def test_wrong_requests(kind, service):
    request_text, status, text = WRONG_REQUESTS[kind]
    got_status, content = ask_raw(service, request_text, ends=True)
    assert got_status == status
    assert text in content["error"]


def test_an_upload_that_is_too_large_gets_an_answer(service):
    status, content = ask(f"{service.url}/echo", b"x" * 3_000_000, content_type="audio/wav")
    assert (status, content) == (413, {"error": "the request has 3000000 bytes, and at most 1000 are possible."})
    assert ask_bytes(service.url + "/")[0] == 200


def test_own_pages_may_ask(service):
    assert ask(f"{service.url}/echo", "{}", headers={"Origin": service.url})[0] == 200


UNFINISHED = {"head": "POST /ec", "body": f"POST /echo {_HOST}\r\nContent-Length: 5{_END}ab"}


@pytest.mark.parametrize("part", UNFINISHED)
def test_a_request_that_never_ends_is_ended(part):
    with running(timeout_s=0.3) as service:
        answer = ask_raw(service, UNFINISHED[part])
    error = {"error": "the request did not arrive within 0.3 seconds."}
    assert answer in (None, ("408 Request Timeout", error))  # None: not even the head came in time


def test_too_many_requests_at_a_time():
    goes_on, has_begun = threading.Event(), threading.Event()

    def slow(request):
        has_begun.set()
        assert goes_on.wait(LIMIT_S)
        return Answer.of("done")

    with running({"/slow": ("GET", slow)}, max_requests=1) as service:
        answers = []
        thread = threading.Thread(target=lambda: answers.append(ask(f"{service.url}/slow")))
        thread.start()
        assert has_begun.wait(LIMIT_S)
        error = {"error": "busy: 1 can be answered at once. Try again later."}
        assert ask(f"{service.url}/slow") == (503, error)
        goes_on.set()
        thread.join()
        assert answers == [(200, "done")]
        assert ask(f"{service.url}/slow") == (200, "done")


def test_requests_under_way_are_answered_at_the_end():
    goes_on, has_begun, answers = threading.Event(), threading.Event(), []

    def slow(request):
        has_begun.set()
        assert goes_on.wait(LIMIT_S)
        return Answer.of("done")

    service = HttpService("localhost", 0, {"/": ("GET", slow)}, limits=Limits(), option="option 'x'")
    with service.running(on_end=goes_on.set):
        thread = threading.Thread(target=lambda: answers.append(ask(service.url)))
        thread.start()
        assert has_begun.wait(LIMIT_S)
    thread.join()
    assert answers == [(200, "done")]


@pytest.mark.parametrize(("host", "port"), [("localhost", 70000), ("no such host", 0), ("192.0.2.1", 0)])
def test_places_that_are_not_possible(host, port):
    with pytest.raises(UserError, match=rf"^option 'x': cannot listen at '{host}', port {port}: "):
        HttpService(host, port, {}, limits=Limits(), option="option 'x'")


def test_a_port_in_use(service):
    with pytest.raises(UserError, match="Address already in use"):
        HttpService("localhost", service.server_port, {}, limits=Limits(), option="option 'x'")


def test_with_another_host_any_name_of_the_machine_will_do():
    with running(host="") as service:
        answer = ask_raw(service, "POST /echo HTTP/1.0\r\nHost: my.machine\r\nContent-Length: 0\r\n\r\n")
        assert answer[0] == "200 OK"
