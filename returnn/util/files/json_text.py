"""JSON files that people write: with comments."""

from __future__ import annotations

import json
import re
from typing import Any

from returnn.util.errors import UserError

_STRING_OR_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/|#[^\n]*', re.DOTALL)


def json_remove_comments(string: str, strip_space: bool = True) -> str:
    """
    :param string: JSON with comments as in C, C++ or Python
    :param strip_space: whether spaces outside of strings go too
    :return: plain JSON
    """
    res = _STRING_OR_COMMENT.sub(lambda match: match.group(1) or "", string)
    if strip_space:
        parts = re.split(r'("(?:\\.|[^"\\])*")', res)
        res = "".join(part if part.startswith('"') else "".join(part.split()) for part in parts)
    return res


def load_json(filename: str | None = None, content: str | None = None) -> Any:
    """
    :param filename: of a file with JSON, may have comments
    :param content: the JSON itself, instead
    :raises UserError: if it is no JSON
    """
    if content is None:
        assert filename is not None, "one of filename and content is needed"
        with open(filename, encoding="utf8") as file:
            content = file.read()
    try:
        return json.loads(json_remove_comments(content, strip_space=False))
    except json.JSONDecodeError as exc:
        raise UserError(f"{filename or 'JSON'}, line {exc.lineno}, column {exc.colno}: {exc.msg}.") from exc
