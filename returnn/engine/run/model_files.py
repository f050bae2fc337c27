"""`ModelFiles`: the model files of a training: which one it begins with, and which ones are superfluous."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from returnn.config import Config
from returnn.config.preloaded_file import warn_of_missing_files
from returnn.engine.learning_rate_control import LearningRateControl
from returnn.engine.model_names import ModelNames, check_is_there, start_epoch_without_model, train_start_epoch
from returnn.engine.run.cleanup import cleanup_policy, superfluous_epochs
from returnn.engine.run.processes import Processes
from returnn.engine.run.unfinished import UnfinishedEpoch, UnfinishedFiles
from returnn.engine.run_lock import RunLock
from returnn.log import log
from returnn.util.errors import ConfigError
from returnn.util.files.checkpoint_files import NewestIntact
from returnn.util.files.checkpoint_names import get_checkpoint_filepattern
from returnn.util.system.terminal import confirm
from returnn.util.system.waiting import said_if_long
from returnn.util.texts.counted import counted
from returnn.util.texts.human_readable import human_bytes_size


@dataclass(frozen=True)
class ModelToLoad:
    """Where parameters come from. Without an epoch, it is a model of another training."""

    epoch: int | None = None
    filename: str | None = None
    unfinished: UnfinishedEpoch | None = None  # after that epoch; instead of a file


class CheckpointFormat(Protocol):
    """The files of checkpoints of a backend, such as the module `returnn.tf.checkpoint`."""

    def existing_checkpoints(self, model: str, *, is_pretrain_epoch: Callable[[int], bool]) -> dict[int, str]:
        """:return: epoch -> name without suffix, in the order of the epochs"""

    def newest_intact_checkpoint(self, checkpoints: Mapping[int, str]) -> NewestIntact:
        """:return: among these, epoch -> name without suffix"""

    def finish_interrupted_saves(self, model: str) -> list[str]:
        """:return: a sentence for each checkpoint that was being written when a process ended"""

    def delete_checkpoint(self, checkpoint: str) -> int:
        """:return: bytes that are free now"""


class ModelFiles:
    """All checkpoints of one training."""

    def __init__(
        self,
        config: Config,
        names: ModelNames,
        checkpoints: CheckpointFormat,
        unfinished: UnfinishedFiles,
        *,
        processes: Processes | None = None,
    ) -> None:
        """
        :param config: options
        :param names: of the files
        :param checkpoints: the format
        :param unfinished: what is written inside of epochs
        :param processes: if the training has several; the first one writes
        """
        self.processes = processes
        self.config = config
        self.names = names
        self.checkpoints = checkpoints
        self.lock = RunLock(names.model) if names.model else None
        self.unfinished = unfinished

    @property
    def are_written(self) -> bool:
        """Whether this process writes any."""
        return self.are_wanted and (self.processes is None or self.processes.is_first)

    @property
    def are_wanted(self) -> bool:
        """Whether this training writes any, here or in another process."""
        return model_files_are_written(self.config)

    def existing(self) -> dict[int, str]:
        """:return: epoch -> name without suffix"""
        if not self.names.model:
            return {}
        return self.checkpoints.existing_checkpoints(self.names.model, is_pretrain_epoch=self.names.epochs.is_pretrain)

    def begin_training(self, config: Config, *, may_be_unfinished: bool = True) -> ModelToLoad:
        """
        Sets the epoch to the one that comes next.

        :param config: its options `start_epoch`, `import_model_train_epoch1`, `load`
        :param may_be_unfinished: whether it can go on inside of an epoch
        :return: what the training goes on from
        :raises ConfigError: if all models are damaged, or an imported one is not there
        :raises UserError: if another process trains them
        """
        warn_of_missing_files(config.options.preload_from_files)
        processes = self.processes
        with said_if_long(f"to look for models of {self.names.model!r}", limit_s=config.options.data_wait_limit_s):
            self._lock_for_writing()
            if self.names.model and (processes is None or processes.is_first):
                for text in self.checkpoints.finish_interrupted_saves(self.names.model):
                    print(text, file=log.v2)
            if processes is not None:
                processes.wait_for_all()  # until the first one has put the folder in order
            found = self._what_to_begin_with(config, may_be_unfinished=may_be_unfinished)
        _warn_of_unused_models(config, found)
        if processes is not None:
            processes.check_agreement("the epoch to begin with", self.names.epochs.current)
        return found

    def _what_to_begin_with(self, config: Config, *, may_be_unfinished: bool) -> ModelToLoad:
        existing = self.existing()
        if may_be_unfinished and config.options.start_epoch is None and self.unfinished.are_written:
            unfinished = self.unfinished.newest(last_model=max(existing, default=0))
            if unfinished is not None:
                self.names.epochs.current = unfinished.position.epoch
                return ModelToLoad(unfinished.position.epoch - 1, unfinished=unfinished)
        if config.options.start_epoch is not None:
            start = train_start_epoch(config)
            existing = {epoch: name for epoch, name in existing.items() if epoch < start}
        newest = self.checkpoints.newest_intact_checkpoint(existing)
        for damage in newest.skipped:
            log.print_warning(f"{damage.reason} {'The one before is taken.' if newest.checkpoint else ''}")
        if newest.checkpoint is not None and newest.epoch:
            self.names.epochs.current = newest.epoch + 1
            return ModelToLoad(newest.epoch, newest.checkpoint)
        if newest.skipped:
            raise ConfigError(
                f"option 'model': all {counted(len(newest.skipped), 'checkpoint')} of {self.names.model!r} are "
                "damaged. "
                f"The newest: {newest.skipped[0].reason}\n  'start_epoch = 1' starts anew, and writes over them."
            )
        self.names.epochs.current = start_epoch_without_model(config)
        for option in ("import_model_train_epoch1", "load"):
            filename = getattr(config.options, option)
            if filename:
                check_is_there(filename, option=option)
                return ModelToLoad(filename=filename)
        return ModelToLoad(filename=newest.checkpoint)

    def _lock_for_writing(self) -> None:
        if self.lock is not None and self.are_written:
            self.check_folder()
            self.lock.acquire()

    def close(self) -> None:
        """Other processes may write the model files, when those of this one are written."""
        self.unfinished.wait()
        if self.lock is not None:
            self.lock.release()

    def check_folder(self) -> None:
        """:raises ConfigError: now, if model files cannot be written, and not after the first epoch"""
        if not self.are_written:
            return
        folder = os.path.dirname(self.names.model or "") or "."
        try:
            os.makedirs(folder, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as exc:
            raise ConfigError(
                f"option 'model': no file can be written to the folder {folder!r}: {exc.strerror}."
            ) from exc

    def clean_up(self, control: LearningRateControl, *, ask_for_confirmation: bool = False) -> None:
        """
        Deletes model files as `cleanup_old_models` says.

        :param control: knows the scores
        :param ask_for_confirmation: ask the person at the terminal; True holds if the option is not set
        """
        option = self.config.options.cleanup_old_models
        policy = cleanup_policy(True if option is None and ask_for_confirmation else option)
        if policy is None or not self.names.model:
            return
        checkpoints = self.existing()
        scores = {epoch: control.get_epoch_error_dict(epoch) for epoch in control.epoch_data}
        epochs = superfluous_epochs(checkpoints, policy, scores)
        text = f"models of epoch{'s' * (len(epochs) != 1)} {', '.join(map(str, epochs)) or 'none'}"
        if ask_for_confirmation and not (epochs and confirm(f"Delete {text} of {sorted(checkpoints)}?")):
            print(f"nothing is deleted; superfluous are {text}", file=log.v1)
            return
        num_bytes = sum(self.checkpoints.delete_checkpoint(checkpoints[epoch]) for epoch in epochs)
        if epochs:
            print(f"deleted {text}, {human_bytes_size(num_bytes)}", file=log.v3)


def _warn_of_unused_models(config: Config, found: ModelToLoad) -> None:
    """Says which options name a model that the training does not begin with."""
    if found.epoch is None:
        return
    place = f"from {found.filename!r}" if found.filename else f"inside of epoch {found.epoch + 1}"
    goes_on = f"the training goes on {place}"
    load, load_epoch = config.options.load, config.options.load_epoch
    if load and get_checkpoint_filepattern(load) != found.filename:
        log.print_warning(
            f"option 'load': {load!r} is not used, as {goes_on}. "
            "'start_epoch = 1' begins with it, and writes over the models; another 'model' keeps them."
        )
    if load_epoch > 0 and load_epoch != found.epoch:
        log.print_warning(
            f"option 'load_epoch': {load_epoch} is not used, as {goes_on}. "
            f"'start_epoch = {load_epoch + 1}' goes on after that epoch."
        )


def model_files_are_written(config: Config) -> bool:
    """:return: whether a training writes any"""
    return bool(config.options.model) and not config.options.dry_run
