"""What an error of TensorFlow, Python or a user's code says about itself, in one or two lines."""

from __future__ import annotations

import re
import traceback
from types import CodeType

import tensorflow as tf

from returnn.tf.util.op_error import op_error_text

_MAX_LENGTH = 300
_PACKAGE = __name__.partition(".")[0]
_LIBRARIES = (_PACKAGE, "tensorflow", "keras", "numpy", "contextlib", "functools", "importlib")
_NODE = re.compile(
    r" for '\{\{node (?P<op>[^}]+)\}\} = (?P<type>\w+).*?'(?: with input shapes: (?P<shapes>.*?))?"
    r"( and with (?:input tensors )?computed .*)?\.?$"
)


def error_text(exc: Exception) -> str:
    """
    :param exc: any error
    :return: its kind and what it says; and the last place in the code of a user on the way to it, if there is one,
        otherwise where to look
    """
    text = op_error_text(exc) if isinstance(exc, tf.errors.OpError) else next(iter(str(exc).splitlines()), "")
    match = _NODE.search(text)
    if match:
        shapes = f", input shapes {match['shapes']}" if match["shapes"] else ""
        text = f"{text[: match.start()]} (operation {match['op']!r}, {match['type']}{shapes})"
    if len(text) > _MAX_LENGTH:
        text = f"{text[:_MAX_LENGTH]}..."
    place = _place_in_user_code(exc)
    return f"{type(exc).__name__}: {text}\n  {place or 'The log has the traceback, with log_verbosity 5.'}"


def is_of_toolkit(module_name: str) -> bool:
    """:return: whether what is defined in this module belongs to the toolkit, and not to a user"""
    return module_name.partition(".")[0] == _PACKAGE


def _place_in_user_code(exc: Exception) -> str:
    place = ""
    for frame, line in traceback.walk_tb(exc.__traceback__):
        code = frame.f_code
        module = frame.f_globals.get("__name__") or ""
        if module.partition(".")[0] not in _LIBRARIES and not _is_expression(code):
            place = f"in {code.co_filename}, line {line}, in {code.co_name}"
    return place


def _is_expression(code: CodeType) -> bool:
    """:return: whether it is the text of an option, such as an eval"""
    return code.co_filename == "<string>"
