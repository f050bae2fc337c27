"""The part of the command line that sets options: `++option value`, and the short flags for some options."""

from __future__ import annotations

import argparse
import ast
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from returnn.config.options import OPTIONS
from returnn.util.errors import UserError, nearest_hint


@dataclass(frozen=True)
class Flag:
    """A flag that sets an option."""

    short: str | None
    long: str
    option: str
    own_purpose: str = ""  # of a flag whose option is not declared

    @property
    def purpose(self) -> str:
        """What the option is for."""
        return self.own_purpose or OPTIONS[self.option].purpose

    @property
    def names(self) -> list[str]:
        """:return: as on the command line"""
        return [name for name in (self.short, self.long) if name]


FLAGS = (
    Flag("-a", "--activation", "activation", "Of old networks: not supported."),
    Flag("-b", "--batch_size", "batch_size"),
    Flag("-q", "--cache", "cache", "Not supported: 'cache_size' does it."),
    Flag("-c", "--chunking", "chunking"),
    Flag("-d", "--description", "description"),
    Flag("-u", "--device", "device"),
    Flag("-j", "--dropout", "dropout", "Of old networks: not supported."),
    Flag("-e", "--epoch", "epoch"),
    Flag("-E", "--eval", "eval"),
    Flag("-f", "--gate_factors", "gate_factors", "Of old networks: not supported."),
    Flag("-s", "--hidden_sizes", "hidden_sizes", "Of old networks: not supported."),
    Flag("-y", "--hidden_type", "hidden_type", "Of old networks: not supported."),
    Flag("-r", "--learning_rate", "learning_rate"),
    Flag("-L", "--load", "load"),
    Flag(None, "--config", "load_config", "a further config file"),
    Flag("-l", "--log", "log"),
    Flag("-v", "--verbose", "log_verbosity"),
    Flag("-p", "--loss", "loss", "Of old networks: not supported."),
    Flag("-g", "--lreg", "lreg", "Of old networks: not supported."),
    Flag("-z", "--max_sequences", "max_seqs"),
    Flag("-m", "--momentum", "momentum"),
    Flag("-n", "--num_epochs", "num_epochs"),
    Flag("-o", "--order", "order", "Not supported: 'batching' does it."),
    Flag("-k", "--output_file", "output_file"),
    Flag("-i", "--save_interval", "save_interval"),
    Flag("-x", "--task", "task"),
    Flag("-t", "--truncate", "truncate", "Not supported: 'chunking' does it."),
    Flag("-w", "--window", "window"),
)
CONFIG_EXPRESSION = "config:"  # what a value begins with that is an expression about the config
VERSION_FLAGS = ("-V", "--version")


class _Parser(argparse.ArgumentParser):
    """Raises our error, where argparse would print and exit."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"command line: {message}.\n  rnn.py CONFIG [++option value ...], and see --help.")


def make_parser() -> argparse.ArgumentParser:
    """:return: for the flags alone"""
    parser = _Parser(add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS)
    for flag in FLAGS:
        parser.add_argument(*flag.names, dest=flag.option, metavar="VALUE", help=flag.purpose.replace("%", "%%"))
    return parser


def parse_args(args: Sequence[str]) -> list[tuple[str, str]]:
    """
    :param args: `++option value` and flags, in any order
    :return: option and text of its value, flags first
    :raises UserError: if there is something else
    """
    pairs, rest = _take_pairs(list(args))
    flags, unknown = make_parser().parse_known_args(rest)
    if unknown:
        known = [name for flag in FLAGS for name in flag.names]
        hint = "Options are set with '++option value'."
        if unknown[0].startswith("-"):
            hint = nearest_hint(unknown[0], known)
        elif os.path.isfile(unknown[0]):
            hint = f"Config files come first: {unknown[0]} ++option value."
        raise UserError(f"command line: {unknown[0]!r} is unknown.\n  {hint}")
    return [*vars(flags).items(), *pairs]


def _take_pairs(args: list[str]) -> tuple[list[tuple[str, str]], list[str]]:
    pairs, rest = [], []
    while args:
        arg = args.pop(0)
        if not arg.startswith("++"):
            rest.append(arg)
            continue
        if not args:
            raise UserError(f"command line: {arg!r} has no value.\n  Options are set with '++option value'.")
        pairs.append((arg[2:], args.pop(0)))
    return pairs, rest


def parse_value(text: str, *, current: Any = None) -> Any:
    """
    :param text: e.g. "0.001", "True", "{'class': 'adam'}", "cpu"
    :param current: what the option was before: text stays text, unless the new value is a dict, a list or None
    :return: a Python literal or JSON becomes its value, everything else is text, or a list of texts if there are commas
        and it is no expression "config:..."
    :raises UserError: if it begins as a dict or a list does, and cannot be read as one
    """
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        pass
    else:
        return value if not isinstance(current, str) or isinstance(value, dict | list | None) else text
    if isinstance(current, str):
        return text
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if text.startswith(("{", "[")) and "," in text:
        return _parse_brackets(text)
    if text.startswith(CONFIG_EXPRESSION):
        return text  # its commas are those of Python
    return text.split(",") if "," in text else text


def _parse_brackets(text: str) -> Any:
    """:return: value of JSON. To split what looks like a dict or a list makes no sense"""
    try:
        return json.loads(text)
    except json.JSONDecodeError as exc:
        raise UserError(
            f"command line: cannot read the value {text!r}.\n"
            f"  It is neither Python nor JSON ({exc.msg}, character {exc.pos + 1}). Texts need quotes; all of it, too."
        ) from exc
