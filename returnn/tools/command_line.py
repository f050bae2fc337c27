"""
What the scripts in `tools` have in common: errors, the config, the data set that they are about.

A config can also be the dict of a data set, or what `init_dataset` takes as text, such as "file.hdf".
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

import returnn.__main__ as rnn
from returnn.config import get_global_config
from returnn.config.config import Config
from returnn.datasets.core.dataset import Dataset
from returnn.datasets.core.registry import init_dataset, init_dataset_via_str, known_dataset_classes
from returnn.engine.data import dataset_names, load_dataset
from returnn.log import log
from returnn.util.errors import UserError, nearest_hint
from returnn.util.files.literal import literal_eval

_GIVEN_DATA = "given"


def run_tool(
    main: Callable[[argparse.Namespace], int | None], parser: argparse.ArgumentParser, argv: Sequence[str] | None = None
) -> int:
    """
    :param main: does the work; may return an exit status
    :param parser: of the arguments
    :param argv: by default those of the process
    :return: exit status; 1 after an error of the user, which is shown in a line
    """
    args = parser.parse_args(argv)
    try:
        return main(args) or 0
    except UserError as exc:
        log.print_error(f"error: {exc}")
    except BrokenPipeError:  # as with "| head"
        sys.stderr.close()
    except KeyboardInterrupt:
        log.print_error("interrupted")
        return 130
    return 1


def init_config(text: str | None, *, verbosity: int = 4, **options: Any) -> Config:
    """
    :param text: file of a config; or the dict of a data set, or its name as `init_dataset_via_str` takes it, which is
        the data set of the config then
    :param verbosity: of the log
    :param options: win over those of the config
    :return: the global config
    :raises UserError: if it cannot be read
    """
    is_config = text is not None and not _is_dataset(text)
    rnn.init_config(
        text if is_config else None, extra_updates={"log": ["stdout"], "log_verbosity": [verbosity], **options}
    )
    rnn.init_log()
    config = get_global_config()
    if text is not None and not is_config:
        config.set(_GIVEN_DATA, _as_dict(text) if text.lstrip().startswith("{") else text)
    return config


def open_dataset(config: Config, name: str | None = None) -> Dataset:
    """
    :param config: its data sets can be named
    :param name: of a data set of the config, "train" by default; or the dict of one; or another text that
        `init_dataset_via_str` takes
    :raises UserError: if there is none
    """
    given = config.opt_typed_value(_GIVEN_DATA, None)
    if name is None and given is not None:
        dataset = init_dataset_via_str(given) if isinstance(given, str) else init_dataset(given)
    elif name is not None and name.lstrip().startswith("{"):
        dataset = init_dataset(_as_dict(name))
    elif name is not None and _is_dataset(name):
        dataset = init_dataset_via_str(name, config)
    else:
        dataset = load_dataset(config, name or "train")
    if dataset is None:
        known = [option for option in ("train", *dataset_names(config)) if config.opt_typed_value(option, None)]
        raise UserError(f"the config has no data set {name or 'train'!r}.\n  {nearest_hint(name or 'train', known)}")
    return dataset


def _as_dict(text: str) -> Any:
    try:
        return literal_eval(text)
    except (ValueError, SyntaxError) as exc:
        raise UserError(f"data set {text[:80]!r}: is no dict of literals: {exc}.") from exc


def _is_dataset(text: str) -> bool:
    kind, colon, _ = text.partition(":")
    is_named = bool(colon) and kind in ("config", "sprint", *known_dataset_classes())
    return text.lstrip().startswith("{") or is_named or text.endswith((".hdf", ".h5"))
