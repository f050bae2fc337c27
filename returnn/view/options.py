"""Options of runs, and what runs differ in."""

from __future__ import annotations

import ast
import json
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

_MAX_CONFIG_BYTES = 4 * 1024**2
_MAX_CHARACTERS = 300
_MAX_ROWS = 200
_OF_THE_PLACE = (  # where things are: other in each run
    "model", "log", "learning_rate_file", "tf_log_dir", "task", "load_epoch", "search_output_file", "output_dir",
    "learning_curve_file", "explain_file", "log_verbosity", "log_format", "device", "description",
)  # fmt: skip


def options_of_config(filename: str) -> dict[str, Any]:
    """
    :param filename: of a config in Python or JSON. It is read and not run: what it computes is shown as it is written
    :return: values by name
    :raises ValueError: if it is neither
    :raises OSError: if it cannot be read
    """
    with open(filename, encoding="utf8", errors="replace") as file:
        text = file.read(_MAX_CONFIG_BYTES)
    if text.lstrip().startswith("{"):
        content = json.loads(text)
        return content if isinstance(content, dict) else {}
    try:
        with warnings.catch_warnings():  # of what is written in the config
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as exc:
        raise ValueError(f"{filename}: this is no Python: {exc}") from None
    options = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            options[node.targets[0].id] = _value(node.value)
    return {name: value for name, value in options.items() if not name.startswith("_")}


def _value(node: ast.expr) -> Any:
    try:
        value = ast.literal_eval(node)
        json.dumps(value)
    except (ValueError, TypeError, RecursionError, MemoryError):
        return ast.unparse(node)[:_MAX_CHARACTERS]
    return value


def differences(options: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[str | None]]]:
    """
    :param options: of each run, by name; of a run of which they are not known, empty
    :return: name of each option that is not the same in all runs, and its values as texts, None where it is not set.
        Options of dicts have names such as "network.output.n_out"
    """
    flat = [_flat({name: value for name, value in run.items() if name not in _OF_THE_PLACE}) for run in options]
    known = [run for run in flat if run]
    rows = [
        (name, [_short(run.get(name)) for run in flat])
        for name in sorted({name for run in known for name in run})
        if len({run.get(name) for run in known}) > 1
    ]
    return rows[:_MAX_ROWS]


def _flat(value: Mapping[Any, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, item in value.items():
        name = f"{prefix}{key}"
        if isinstance(item, Mapping) and item:
            flat.update(_flat(item, f"{name}."))
        else:
            text = item if isinstance(item, str) else json.dumps(item, ensure_ascii=False, default=str)
            flat[name] = text
    return flat


def _short(text: str | None) -> str | None:
    return text if text is None or len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}..."
