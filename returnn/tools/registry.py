"""
The tools of the command line: `returnn tool NAME`, and the scripts of the folder `tools`.

Each is a module of `returnn.tools.commands`, found by its name. So they come with the wheel, and only the one that is
wanted is imported.
"""

from __future__ import annotations

import ast
import functools
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from returnn.log import log
from returnn.tools.command_line import run_tool
from returnn.util.errors import UserError, check_known
from returnn.util.system.tensorflow_import import make_tensorflow_import_quick

_COMMANDS = Path(__file__).parent / "commands"
_PROGRAM = "returnn tool"
_HELP_FLAGS = ("-h", "--help")


def tool_modules() -> dict[str, str]:
    """:return: name of each tool, its words joined by "-" -> its module"""
    paths = [path for path in _COMMANDS.glob("*/*.py") if not path.stem.startswith("_")]
    return {
        _tool_name(path.stem): f"{__package__}.commands.{path.parent.name}.{path.stem}"
        for path in sorted(paths, key=lambda path: path.stem)
    }


@functools.cache
def purpose_of(module: str) -> str:
    """
    :param module: of a tool, which is not imported
    :return: what it does, in a sentence
    """
    path = _COMMANDS.joinpath(*module.split(".")[-2:]).with_suffix(".py")
    doc = ast.get_docstring(ast.parse(path.read_text(encoding="utf8"))) or ""
    return doc.partition("\n")[0]


def run(argv: Sequence[str]) -> int:
    """
    :param argv: name of a tool, then its arguments. Without a name, or with "--help", all tools are listed
    :return: exit status
    """
    if not argv or argv[0] in _HELP_FLAGS:
        print(_overview())
        return 0 if argv else 1
    try:
        return _run_named(argv[0], argv[1:], program=f"{_PROGRAM} {argv[0]}")
    except UserError as exc:  # no such tool
        log.print_error(f"error: {exc}")
        return 1


def run_script(file: str) -> int:
    """
    :param file: of the folder `tools`; the arguments are those of the process
    :return: exit status
    """
    name = os.path.basename(file)
    return _run_named(os.path.splitext(name)[0], sys.argv[1:], program=name)


def _run_named(name: str, argv: Sequence[str], *, program: str) -> int:
    modules = tool_modules()
    check_known("tool", _tool_name(name), modules, where=_PROGRAM)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # only errors of TensorFlow's own log
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    make_tensorflow_import_quick()
    module = importlib.import_module(modules[_tool_name(name)])
    parser = module.make_parser()
    parser.prog = program
    return run_tool(module.main, parser, argv)


def _overview() -> str:
    modules = tool_modules()
    width = max(map(len, modules))
    lines = [f"  {name:{width}}  {purpose_of(module)}" for name, module in modules.items()]
    return "\n".join([f"usage: {_PROGRAM} NAME [ARGUMENT ...]", f"       {_PROGRAM} NAME --help", "", *lines])


def _tool_name(stem: str) -> str:
    return stem.replace("_", "-")
