"""What clients of a server do, in tests."""

import json
import socket
import urllib.error
import urllib.request

from tests.patience import PATIENCE_S

LIMIT_S = PATIENCE_S


def ask(url, body=None, *, content_type="application/json", headers=None):
    """:return: status, JSON of the answer"""
    status, data = ask_bytes(url, body, content_type=content_type, headers=headers)
    return status, json.loads(data)


def ask_bytes(url, body=None, *, content_type="application/json", headers=None):
    """:return: status, answer"""
    data = body.encode("utf8") if isinstance(body, str) else body
    given = {"Content-Type": content_type, **(headers or {})}
    request = urllib.request.Request(url, data=data, headers=given)
    try:
        with urllib.request.urlopen(request, timeout=LIMIT_S) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as exc:
        with exc:
            return exc.code, exc.read()


def ask_raw(service, text, *, ends=False):
    """
    :param service: is running
    :param text: what is sent, as it is
    :param ends: nothing comes after it
    :return: first line and JSON of the answer; None if there is none
    """
    with socket.create_connection(("localhost", service.server_port), timeout=LIMIT_S) as connection:
        connection.sendall(text.encode("utf8"))
        if ends:
            connection.shutdown(socket.SHUT_WR)
        data = b""
        while more := connection.recv(65536):
            data += more
    head, _, body = data.decode("utf8").partition("\r\n\r\n")
    return (head.splitlines()[0].partition(" ")[2], json.loads(body)) if data else None
