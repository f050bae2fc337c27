"""Python source code as text: indentation, statements, names."""

from __future__ import annotations

import io
import keyword
import linecache
import os
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from returnn.util.texts import bool_text

py_keywords = set(keyword.kwlist)

_OPENING, _CLOSING = "([{", ")]}"
_KINDS = {
    tokenize.NAME: "id",
    tokenize.OP: "op",
    tokenize.STRING: "str",
    tokenize.NUMBER: "num",
    tokenize.COMMENT: "comment",
}
_SKIPPED = {tokenize.ENCODING, tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_MAX_STATEMENT_LINES = 100


def str_visible_len(s: str) -> int:
    """:return: number of characters that a terminal shows: without colors"""
    return len(_ESCAPES.sub("", s))


def to_bool(s: str, fallback: Any = None) -> Any:
    """
    :param s: such as "yes"
    :param fallback: the result if it is no truth value
    """
    try:
        return bool_text.to_bool(s)
    except ValueError:
        return fallback


# Indentation.


def get_indent_prefix(s: str) -> str:
    """:return: the spaces and tabs at its begin"""
    return s[: len(s) - len(s.lstrip(" \t"))]


def get_same_indent_prefix(lines: Iterable[str]) -> str | None:
    """:return: the spaces and tabs that all lines begin with; empty lines do not count. None if there is no line"""
    prefixes = [get_indent_prefix(line) for line in lines if line.strip()]
    return os.path.commonprefix(prefixes) if prefixes else None  # noqa: RUF071 - of characters, these are no paths


def remove_indent_lines(s: str) -> str:
    """:return: the lines without the indentation that all of them have"""
    lines = s.splitlines(keepends=True)
    prefix = get_same_indent_prefix(lines) or ""
    return "".join(line.removeprefix(prefix) for line in lines)


def add_indent_lines(prefix: str, s: str) -> str:
    """:return: the text; all lines but the first are indented by as many spaces as the prefix has, which is in front"""
    if not s:
        return prefix
    lines = s.splitlines(keepends=True)
    return "".join((" " * str_visible_len(prefix) if i else prefix) + line for i, line in enumerate(lines))


def replace_tab_indent(s: str, replace: str = "    ") -> str:
    """:return: the line; each tab at its begin is replaced"""
    prefix = get_indent_prefix(s)
    return prefix.replace("\t", replace) + s[len(prefix) :]


def replace_tab_indents(s: str, replace: str = "    ") -> str:
    """:return: the lines; each tab at their begins is replaced"""
    return "".join(replace_tab_indent(line, replace) for line in s.splitlines(keepends=True))


# Statements.


def parse_py_statement(line: str) -> Iterator[tuple[str, str]]:
    """
    :param line: of code, maybe with errors
    :return: kind and text of each part: "id", "op", "str", "num" or "comment". Of strings, what is inside of them
    """
    try:
        for token in tokenize.generate_tokens(io.StringIO(line.strip()).readline):
            if token.type == tokenize.STRING:
                yield "str", _inside_of_string(token.string)
            elif token.type in _KINDS:
                yield _KINDS[token.type], token.string
            elif token.type not in _SKIPPED and token.string.strip():
                yield "op", token.string
    except (tokenize.TokenError, SyntaxError):  # it ends within a bracket or a string: what was found is enough
        return


def parse_py_statements(source_code: str) -> Iterator[tuple[str, str]]:
    """:return: kind and text of each part of all lines"""
    yield from parse_py_statement(remove_indent_lines(source_code))


def grep_full_py_identifiers(tokens: Iterable[tuple[str, str]]) -> Iterator[str]:
    """
    :param tokens: of `parse_py_statement`
    :return: the names in there, such as "self.layer.name", and all that they begin with. No keywords
    """
    path: list[str] = []
    after_dot = False
    for kind, text in tokens:
        if kind == "id" and text not in py_keywords:
            path = [*path, text] if after_dot and path else [text]
            yield ".".join(path)
            after_dot = False
        elif kind == "op" and text == "." and path:
            after_dot = True
        else:
            path, after_dot = [], False


def is_source_code_missing_open_brackets(source_code: str) -> bool:
    """:return: whether it closes brackets which it does not open"""
    return _brackets(source_code)[0]


def is_source_code_missing_brackets(source_code: str, prioritize_missing_open: bool = False) -> bool:
    """
    :param source_code: some lines
    :param prioritize_missing_open: if it closes brackets which it does not open, those that it leaves open do not count
    :return: whether it leaves brackets open
    """
    closes_more, leaves_open = _brackets(source_code)
    return leaves_open and not (prioritize_missing_open and closes_more)


def get_source_code(
    filename: str, lineno: int, module_globals: Mapping[str, Any] | None = None, end_lineno: int | None = None
) -> str:
    """
    :param filename: of the code
    :param lineno: of a line, from 1 on
    :param module_globals: of the module, which may know how to get its code
    :param end_lineno: the last line
    :return: the lines, and those around them which belong to the same brackets
    """
    globals_ = None if module_globals is None else dict(module_globals)
    line = linecache.getline(filename, lineno, globals_)
    lines = linecache.getlines(filename, globals_)
    if not line:
        return ""
    first, last = lineno, max(lineno, end_lineno or lineno)
    limit = max(1, first - _MAX_STATEMENT_LINES)
    while first > limit and is_source_code_missing_open_brackets("".join(lines[first - 1 : last])):
        first -= 1
    limit = min(len(lines), last + _MAX_STATEMENT_LINES)
    while last < limit and is_source_code_missing_brackets("".join(lines[first - 1 : last])):
        last += 1
    return "".join(lines[first - 1 : last])


def set_linecache(filename: str, source: str) -> None:
    """
    :param filename: any name, such as "<my code>"
    :param source: what tracebacks show as its content
    """
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)


def fallback_findfile(filename: str) -> str | None:
    """:return: the file of a loaded module with this name, where the path in its code is not valid any more"""
    files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    found = (path for path in files if path and os.path.basename(path) == os.path.basename(filename))
    return next((path for path in found if os.path.exists(path)), None)


def _inside_of_string(text: str) -> str:
    text = text.lstrip("rRbBuUfF")
    quote = text[:3] if text[:3] in ('"""', "'''") else text[:1]
    return text[len(quote) : len(text) - len(quote)]


def _brackets(source_code: str) -> tuple[bool, bool]:
    """:return: whether it closes brackets that it does not open; whether it leaves some open"""
    depth, closes_more = 0, False
    for kind, text in parse_py_statement(source_code):
        if kind == "op" and text in _OPENING:
            depth += 1
        elif kind == "op" and text in _CLOSING:
            closes_more = closes_more or depth == 0
            depth = max(0, depth - 1)
    return closes_more, depth > 0
