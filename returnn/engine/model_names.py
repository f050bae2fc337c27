"""Names of model files, such as "net-model/network.012": which epochs have one, and which one a task works on."""

from __future__ import annotations

import os

from returnn.config import Config
from returnn.engine.epochs import Epochs
from returnn.util.errors import ConfigError
from returnn.util.files.checkpoint_files import some_checkpoints
from returnn.util.files.checkpoint_names import (
    checkpoint_of_file,
    get_checkpoint_filepattern,
    is_missing,
    model_epoch_from_filename,
)

_SUFFIXES = (".index", ".pt", ".safetensors")  # of the files by which a model exists


class ModelNames:
    """Names of the model files of one training."""

    def __init__(self, config: Config, epochs: Epochs) -> None:
        """
        :param config: its option `model`
        :param epochs: of the training
        """
        self.model: str | None = config.options.model
        self.epochs = epochs

    def of_epoch(self, epoch: int | None = None) -> str:
        """
        :param epoch: default: the current one
        :return: name without suffix
        :raises ConfigError: if the config has no `model`
        """
        if not self.model:
            raise ConfigError("option 'model' is required: where the model files go, such as 'net-model/network'.")
        epoch = self.epochs.current if epoch is None else epoch
        return model_name_of_epoch(self.model, epoch, is_pretrain=self.epochs.is_pretrain(epoch))


def model_name_of_epoch(model: str, epoch: int, *, is_pretrain: bool = False) -> str:
    """
    :param model: what all names begin with, option `model`
    :param epoch: from 0 on; 0 is before the training
    :param is_pretrain: whether it belongs to the pretraining
    :return: name without suffix, e.g. "net-model/network.012"
    """
    return f"{model}{'.pretrain' if is_pretrain else ''}.{epoch:03d}"


def existing_models(config: Config) -> dict[int, str]:
    """
    :param config: its option `model`
    :return: epoch -> name without suffix
    """
    return _models_named(config.options.model) if config.options.model else {}


def _models_named(model: str) -> dict[int, str]:
    folder, name = os.path.split(model)
    found = {}
    for entry in _entries(folder):
        base = get_checkpoint_filepattern(entry)
        epoch_text = base.removeprefix(f"{name}.").removeprefix("pretrain.")
        if base.startswith(f"{name}.") and entry.endswith(_SUFFIXES) and epoch_text.isdigit():
            found[int(epoch_text)] = os.path.join(folder, base)
    return dict(sorted(found.items()))


def model_of_task(config: Config) -> tuple[int | None, str | None]:
    """
    :param config: its options `load`, `load_epoch`, `epoch`, `model`
    :return: epoch and model file that a task other than training works on: `load`, or that of `load_epoch` or `epoch`,
        or the newest; None where there is none
    :raises ConfigError: if it is not there
    """
    existing = existing_models(config)
    load = config.options.load
    if load:
        check_is_there(load, option="load")
        load = checkpoint_of_file(load)
        given = [epoch for epoch in (config.options.load_epoch, config.options.epoch) if epoch > 0]
        return given[0] if given else epoch_of_checkpoint(load), load
    epoch = config.options.load_epoch
    if epoch < 0:
        epoch = config.options.epoch
    if epoch < 0:  # 0 has to be given: it is the model of the task `initialize_model`, which nobody has trained
        epoch = max(existing, default=0) or -1
    if epoch < 0 or (epoch == 0 and 0 not in existing):
        return None, None
    if epoch not in existing:
        have = ", ".join(map(str, existing)) or "none"
        raise ConfigError(f"there is no model of epoch {epoch}.\n  {config.options.model!r} has: {have}.")
    return epoch, existing[epoch]


def check_has_model(config: Config) -> None:
    """
    :param config: for a task other than training
    :raises ConfigError: if nothing says what the parameters are
    """
    if not has_other_parameters(config) and model_of_task(config)[1] is None:
        raise no_model_error(config)


def has_other_parameters(config: Config) -> bool:
    """:return: whether a task other than training may do without a model file"""
    return bool(config.options.allow_random_model_init or config.options.preload_from_files)


def no_model_error(config: Config) -> ConfigError:
    """:return: for a task that needs a model: there is none, or it is in the folder of the config"""
    model = config.options.model
    if model and 0 in _models_named(model):
        return ConfigError(f"the model {model!r} is not trained.\n  'load_epoch = 0' works on it as it is.")
    text = f"there is no model to work on: {model!r} has no checkpoint.\n"
    for folder in dict.fromkeys(map(os.path.dirname, config.files)):
        if model and folder and not os.path.isabs(model) and _models_named(os.path.join(folder, model)):
            return ConfigError(
                f"{text}  Below {folder!r}, the folder of the config, there is one. Names are below the folder that a "
                f"command runs in: cd {folder}"
            )
    return ConfigError(
        f"{text}  Train one, or set 'load' or 'load_epoch'; 'allow_random_model_init = True' works without."
    )


def check_is_there(checkpoint: str, *, option: str) -> None:
    """
    :param checkpoint: name without suffix, or one of its files
    :param option: that names it
    :raises ConfigError: if there is no such file
    """
    if is_missing(checkpoint):
        folder = os.path.dirname(checkpoint) or "."
        names = {get_checkpoint_filepattern(name) for name in _entries(folder) if name.endswith(_SUFFIXES)}
        what = some_checkpoints(names) if os.path.isdir(folder) else "does not exist"
        raise ConfigError(
            f"option {option!r}: checkpoint {checkpoint!r} does not exist.\n  The folder {folder!r} {what}."
        )


def train_start_epoch(config: Config) -> int:
    """
    :param config: its options `start_epoch`, `model`
    :return: `start_epoch`; by default the one after the newest model file
    :raises ConfigError: if `start_epoch` is no number from 1
    """
    start = config.options.start_epoch
    return max(existing_models(config), default=0) + 1 if start is None else start


def start_epoch_without_model(config: Config) -> int:
    """:return: the first epoch of a training from scratch"""
    return config.options.start_epoch or 1


def _entries(folder: str) -> list[str]:
    """:return: names; none if there is no such folder. One that cannot be read is an error, it may have models"""
    try:
        return os.listdir(folder or ".")
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as exc:
        raise ConfigError(f"option 'model': the folder {folder!r} cannot be read: {exc.strerror}.") from exc


def epoch_of_checkpoint(filename: str) -> int | None:
    """:return: as its name says, such as 12 of "net-model/network.012"; None if it does not"""
    try:
        return model_epoch_from_filename(filename)
    except ValueError:
        return None
