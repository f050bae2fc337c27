"""
The three formats of config files.

A Python config starts with `#!`, or its name ends with `.py`; JSON starts with a brace; everything else has a line
`key value` per option, where commas separate several values.
"""

from __future__ import annotations

import ast
import keyword
import os
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TextIO

from returnn.util.errors import ConfigError, UserError
from returnn.util.files.file_kind import is_checkpoint, kind_of_binary
from returnn.util.files.json_text import load_json
from returnn.util.files.near_files import hint_for_missing_file
from returnn.util.python.attribute_hints import attribute_hint
from returnn.util.system.py_exec import custom_exec

FileType = Literal["py", "js", "txt"]
_CONFIG_SUFFIXES = (".config", ".py", ".json", ".cfg", ".conf", ".txt", "")
_STATEMENTS_IN_PARTS = ("try:", "else:", "finally:")
_HOW_TO_PYTHON = "\n  A Python config begins with '#!rnn.py' in its first line, or its name ends with '.py'."


@dataclass(frozen=True)
class ConfigSource:
    """What was read from one file."""

    filename: str
    type: FileType
    content: str


def read_source(file: str | os.PathLike[str] | TextIO) -> ConfigSource:
    """
    :param file: a name, or an open file
    :raises ConfigError: if it cannot be read
    """
    if hasattr(file, "read"):
        filename, content = getattr(file, "name", "<config string>"), file.read()
    else:
        filename = os.fspath(file)
        content = _read_file(filename)
    return ConfigSource(str(filename), type_of_content(str(filename), content), content)


def type_of_content(filename: str, content: str) -> FileType:
    """:return: see the head of this module"""
    if filename.endswith(".py") or content.startswith("#!"):
        return "py"
    if content.lstrip().startswith("{"):
        return "js"
    return "txt"


def _read_file(filename: str) -> str:
    if is_checkpoint(filename):
        raise ConfigError(
            f"config {filename!r}: is a checkpoint.\n"
            "  The config that it was trained with is needed, and loads the last epoch, or that of `++load_epoch`."
        )
    try:
        with open(filename, encoding="utf8") as file:
            return file.read()
    except OSError as exc:
        near = hint_for_missing_file(filename, is_wanted=_may_be_config)
        raise ConfigError(f"config {filename!r}: {exc.strerror}.{near}") from exc
    except UnicodeDecodeError as exc:
        with open(filename, "rb") as binary_file:
            kind = kind_of_binary(binary_file.read(1024))
        what = f"is {kind}" if kind else f"is not UTF-8, see byte {exc.start}"
        raise ConfigError(f"config {filename!r}: {what}.") from exc


def _may_be_config(name: str) -> bool:
    return os.path.splitext(name)[1] in _CONFIG_SUFFIXES


def run_python(source: ConfigSource, namespace: dict[str, Any]) -> None:
    """
    :param source: Python code
    :param namespace: gets what the code defines
    :raises ConfigError: says which line of the config failed
    """
    try:
        custom_exec(source.content, source.filename, namespace, namespace)
    except UserError:
        raise
    except SyntaxError as exc:
        where = f"config {exc.filename!r}, line {exc.lineno}"
        raise ConfigError(f"{where}: {exc.msg}\n  {(exc.text or '').strip()}") from exc
    except Exception as exc:
        raise ConfigError(_describe_failure(exc, source.filename)) from exc


def _describe_failure(exc: Exception, filename: str) -> str:
    frames = traceback.extract_tb(exc.__traceback__)
    own = [frame for frame in frames if frame.filename == filename]
    what = f"{type(exc).__name__}: {exc}".split("\n")[0]
    hint = attribute_hint(exc)
    lines = [f"config {filename!r}, line {own[-1].lineno if own else '?'}: {what}{'. ' if hint else ''}{hint}"]
    if own:
        lines.append(f"  {own[-1].line}")
    if frames and frames[-1].filename != filename:
        lines.append(f"  raised in {frames[-1].filename}, line {frames[-1].lineno}, {frames[-1].name}")
    return "\n".join(lines)


def parse_json(source: ConfigSource) -> dict[str, Any]:
    """
    :return: the options
    :raises ConfigError: if it is no JSON object
    """
    try:
        options = load_json(content=source.content)
    except UserError as exc:
        raise ConfigError(f"config {source.filename!r}: {exc}") from exc
    assert isinstance(options, dict), "a type_of_content of js has a brace at its start"
    return options


def parse_key_values(source: ConfigSource) -> Iterator[tuple[str, str]]:
    """
    :return: key and value of each line
    :raises ConfigError: if a line has no value, or is Python
    """
    for number, line in enumerate(source.content.splitlines(), start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        key, *value = line.split(None, 1)
        where = f"config {source.filename!r}, line {number}"
        if _is_python(key, *value):
            raise ConfigError(
                f"{where}: {line!r} is Python, but the file is read as lines 'key value'.{_HOW_TO_PYTHON}"
            )
        if not value:
            raise ConfigError(f"{where}: option {key!r} has no value. Each line is 'key value'.{_HOW_TO_PYTHON}")
        yield key, value[0]


def _is_python(key: str, value: str = "") -> bool:
    """:return: whether a line is an assignment or a statement, which no line `key value` is"""
    if "=" in key or value.startswith("="):
        return True
    if not keyword.iskeyword(key.rstrip(":")):
        return False
    line = f"{key} {value}".rstrip()
    return line in _STATEMENTS_IN_PARTS or any(map(_is_statement, (line, f"{line} pass")))  # no text, such as "for me"


def _is_statement(code: str) -> bool:
    try:
        statements = ast.parse(code).body
    except (SyntaxError, ValueError):
        return False
    return not any(isinstance(statement, ast.Expr) for statement in statements)
