"""
What all tools have in common: errors, the config, the data set and the files that they are about.

What a tool is about, a config or a file, can be its first argument or an option. A config can also be the dict of a
data set, or what `init_dataset` takes as text, such as "file.hdf". `++option value` sets options of the config.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import returnn.__main__ as rnn
from returnn.config import get_global_config
from returnn.config.config import Config
from returnn.datasets.core.dataset import Dataset
from returnn.datasets.core.registry import init_dataset, init_dataset_via_str, known_dataset_classes
from returnn.datasets.whole_data import whole_data
from returnn.engine.data import dataset_names, load_dataset
from returnn.log import log
from returnn.util.errors import UserError, nearest_hint
from returnn.util.files.literal import literal_eval
from returnn.util.files.text_file import read_text

_GIVEN_DATA = "given"
_ARCHIVE = ".zip"  # of `OggZipDataset`, of which only the texts are read: how its audio becomes features is not known


def run_tool(
    main: Callable[[argparse.Namespace], int | None], parser: argparse.ArgumentParser, argv: Sequence[str] | None = None
) -> int:
    """
    :param main: does the work; may return an exit status
    :param parser: of the arguments
    :param argv: by default those of the process
    :return: exit status; 1 after an error of the user, which is shown in a line
    """
    given, config_options = _split_args(sys.argv[1:] if argv is None else argv)
    args = parser.parse_args(given)
    args.config_options = config_options
    try:
        if config_options and not hasattr(args, "config"):
            raise UserError(f"{' '.join(config_options)}: this tool has no config that could have an option.")
        return main(args) or 0
    except UserError as exc:
        log.print_error(f"error: {exc}")
    except BrokenPipeError:  # as with "| head"
        sys.stderr.close()
    except KeyboardInterrupt:
        log.print_error("interrupted")
        return 130
    return 1


def add_config(parser: argparse.ArgumentParser, name: str | None = None, *, help: str) -> None:
    """
    Adds the option `--config`, which can be given several times: the configs are joined as in a run, later ones win.

    :param parser: gets it
    :param name: the config can also be the first argument, of this name
    :param help: a sentence
    """
    add_file(parser, name, "--config", help=help, action=_JoinConfigs)


class _JoinConfigs(argparse.Action):
    """The first one is the value, as of any option; `more_configs` has further ones."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option_string: Any = None
    ) -> None:
        if getattr(namespace, self.dest) is None:
            setattr(namespace, self.dest, values)
        else:
            namespace.more_configs = [*getattr(namespace, "more_configs", ()), values]


def add_dataset(parser: argparse.ArgumentParser, *, help: str = "Default: train") -> None:
    """Adds the option `--dataset`; `help` says more about it."""
    parser.add_argument(
        "--dataset",
        help="name of a dataset of the config, or a dict, or a HDF file, or an archive of make-ogg-zip, for its texts."
        f" {help}",
    )


def add_file(
    parser: argparse.ArgumentParser,
    name: str | None,
    option: str,
    *,
    help: str,
    action: str | type[argparse.Action] = "store",
) -> None:
    """
    Adds a file that can be given by an option or as an argument without one.

    :param parser: gets both
    :param name: of the argument; None: there is only the option
    :param option: such as "--file_name"
    :param help: a sentence
    :param action: of the option
    """
    dest = option.lstrip("-").replace("-", "_")
    if name is not None:
        parser.add_argument(f"{dest}_argument", nargs="?", metavar=name, help=help)
    parser.add_argument(option, dest=dest, action=action, help=help if name is None else f"the same as {name}")


def file_of(args: argparse.Namespace, option: str) -> str | None:
    """
    :param args: of a tool
    :param option: of `add_file`
    :return: the file, however it was given; None if it was not
    :raises UserError: if it was given twice
    """
    dest = option.lstrip("-").replace("-", "_")
    by_option, by_argument = getattr(args, dest), getattr(args, f"{dest}_argument", None)
    if by_option is not None and by_argument is not None:
        join = f"\n  To join both: --config {by_argument} --config {by_option}" if option == "--config" else ""
        raise UserError(f"option {option!r}: {by_option!r} and {by_argument!r} are given. One of them is enough.{join}")
    return by_option if by_option is not None else by_argument


def required_file_of(args: argparse.Namespace, option: str, *, what: str) -> str:
    """
    :param args: see `file_of`
    :param option: see `file_of`
    :param what: it is
    :raises UserError: if it was not given, or twice
    """
    given = file_of(args, option)
    if given is None:  # of too few arguments, the last ones are there
        for name, value in vars(args).items():
            if isinstance(value, str) and value.endswith(".config") and os.path.isfile(value):
                raise UserError(
                    f"too few arguments: {value!r} would be {name!r}. See '--help' for which ones are needed."
                )
        raise UserError(f"{what} is required: as the first argument, or with {option!r}.")
    return given


def init_config(args: argparse.Namespace, *, verbosity: int = 4, is_required: bool = False, **options: Any) -> Config:
    """
    :param args: of the tool. The config is a file; or the dict of a data set, or its name as `init_dataset_via_str`
        takes it, which is the data set of the config then. Of several files, later ones win
    :param verbosity: of the log
    :param is_required: whether there has to be a config
    :param options: win over those of the config
    :return: the global config
    :raises UserError: if it cannot be read
    """
    text = required_file_of(args, "--config", what="a config") if is_required else file_of(args, "--config")
    is_config = text is not None and not is_dataset(text)
    rnn.init_config(
        [*([text] if text is not None and is_config else []), *getattr(args, "more_configs", ())],
        args.config_options,
        extra_updates={"log": ["stdout"], "log_verbosity": [verbosity], **options},
    )
    rnn.init_log()
    config = get_global_config()
    if text is not None and not is_config:
        config.set(_GIVEN_DATA, _as_dict(text) if text.lstrip().startswith("{") else text)
    return config


def open_dataset(config: Config, name: str | None = None, *, whole: bool = True) -> Dataset:
    """
    :param config: its data sets can be named
    :param name: of a data set of the config, "train" by default; or the dict of one; or another text that
        `init_dataset_via_str` takes
    :param whole: whether each epoch has all of the data, see `whole_data`
    :raises UserError: if there is none
    """
    given = config.opt_typed_value(_GIVEN_DATA, None)
    if name is None and given is not None:
        dataset = _dataset_of_text(given, whole=whole) if isinstance(given, str) else _of_dict(given, whole)
    elif name is not None and name.lstrip().startswith("{"):
        dataset = _of_dict(_as_dict(name), whole)
    elif name is not None and is_dataset(name):
        dataset = _dataset_of_text(name, config, whole=whole)
    else:
        dataset = load_dataset(config, name or "train", whole=whole)
    if dataset is None:
        if not config.files:
            raise UserError(f"data set {name or 'train'!r}: {_no_config(name or 'train')}")
        known = [option for option in ("train", *dataset_names(config)) if config.opt_typed_value(option, None)]
        raise UserError(f"the config has no data set {name or 'train'!r}.\n  {nearest_hint(name or 'train', known)}")
    return dataset


def is_dataset(text: str) -> bool:
    """:return: whether the text is a data set: a dict, the name of its file, or what `init_dataset_via_str` takes"""
    kind, colon, _ = text.partition(":")
    is_named = bool(colon) and kind in ("config", "sprint", *known_dataset_classes())
    return text.lstrip().startswith("{") or is_named or text.endswith((".hdf", ".h5", _ARCHIVE))


def is_config(filename: str) -> bool:
    """:return: whether the file is a config, by its name or its first line"""
    if filename.endswith(".config"):
        return True
    first = read_text(filename).partition("\n")[0]
    return first.startswith("#!") and "rnn.py" in first


def _of_dict(description: Any, whole: bool) -> Dataset | None:
    return init_dataset(whole_data(description) if whole else description)


def _dataset_of_text(text: str, config: Config | None = None, *, whole: bool) -> Dataset | None:
    if text.endswith(_ARCHIVE):
        return init_dataset({"class": "OggZipDataset", "path": text, "audio": None, "targets": None})
    return init_dataset_via_str(text, config, whole=whole)


def _no_config(name: str) -> str:
    if os.path.exists(name):
        return (
            "it is a file, but none of HDF (.hdf, .h5) and no archive (.zip)."
            " Other files are read by the dict of a data set."
        )
    return "there is no config that could have it. A config is given with '--config'."


def _split_args(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """:return: arguments of the tool; from the first `++option` on, those of the config"""
    num = next((i for i, arg in enumerate(argv) if arg.startswith("++")), len(argv))
    return list(argv[:num]), list(argv[num:])


def _as_dict(text: str) -> Any:
    try:
        return literal_eval(text)
    except (ValueError, SyntaxError) as exc:
        raise UserError(f"data set {text[:80]!r}: is no dict of literals: {exc}.") from exc
