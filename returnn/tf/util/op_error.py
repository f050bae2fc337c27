"""What an error of a session says, without where TensorFlow has made the operation."""

from __future__ import annotations

import re

import tensorflow as tf

_REASON = re.compile(r"^Node: '[^']*'\n(?P<reason>.*?)(?=^\s*\[\[\{\{node |\Z)", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"Graph execution error:|\d+ root error|\s*\[\[\{\{")
_ROOT_CAUSE = re.compile(r"^\s*\(\d+\) [A-Z_]+: ")
_OWN_CHECK = re.compile(r"assertion failed: \[(?P<message>(?:(?!\] \[).)*)\]")  # with a message and no values
_PYTHON_FRAME = re.compile(r'^  File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>.+)$', re.MULTILINE)


def op_error_text(exc: tf.errors.OpError) -> str:
    """
    :param exc: of `session.run`
    :return: one line: the reason, where in Python code if it came from a function there, and the operation; of our own
        assertions only the message
    """
    match = _REASON.search(exc.message)
    reason = match["reason"] if match else exc.message
    lines = [line for line in reason.splitlines() if line.strip() and not _HEADING.match(line)]
    text = _ROOT_CAUSE.sub("", lines[0]).strip() if lines else type(exc).__name__
    own_check = _OWN_CHECK.fullmatch(text)
    if own_check:
        return own_check["message"].replace("\\'", "'")
    frames = list(_PYTHON_FRAME.finditer(reason))
    if frames:
        frame = frames[-1]
        text += f" ({frame['file']}, line {frame['line']}, in {frame['function']})"
    return f"{text} (operation {exc.op.name!r})" if exc.op is not None else text
