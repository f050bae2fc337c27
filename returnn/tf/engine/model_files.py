"""`ModelFiles`: the model files of a training: which one it begins with, and which ones are superfluous."""

from __future__ import annotations

import os
import tempfile

from returnn.config import Config
from returnn.engine.learning_rate_control import LearningRateControl
from returnn.engine.model_names import ModelNames, start_epoch_without_model, train_start_epoch
from returnn.engine.run_lock import RunLock
from returnn.log import log
from returnn.tf.checkpoint import (
    cleanup_policy,
    delete_checkpoint,
    existing_checkpoints,
    finish_interrupted_saves,
    newest_intact_checkpoint,
    superfluous_epochs,
)
from returnn.tf.engine.network_session import ModelToLoad
from returnn.tf.horovod import get_ctx
from returnn.util.errors import ConfigError
from returnn.util.system.terminal import confirm
from returnn.util.texts.human_readable import human_bytes_size


class ModelFiles:
    """All checkpoints of one training."""

    def __init__(self, config: Config, names: ModelNames) -> None:
        """
        :param config: options
        :param names: of the files
        """
        self.config = config
        self.names = names
        self.lock = RunLock(names.model) if names.model else None

    @property
    def are_written(self) -> bool:
        """Whether this training writes any."""
        return bool(self.names.model) and not self.config.options.dry_run

    def existing(self) -> dict[int, str]:
        """:return: epoch -> name without suffix"""
        if not self.names.model:
            return {}
        return existing_checkpoints(self.names.model, is_pretrain_epoch=self.names.epochs.is_pretrain)

    def begin_training(self, config: Config) -> ModelToLoad:
        """
        Sets the epoch to the one that comes next.

        :param config: its options `start_epoch`, `import_model_train_epoch1`, `load`
        :return: what the training goes on from
        :raises ConfigError: if all models are damaged
        :raises UserError: if another process trains them
        """
        self._lock_for_writing()
        if self.names.model:
            for text in finish_interrupted_saves(self.names.model):
                print(text, file=log.v2)
        existing = self.existing()
        if config.options.start_epoch is not None:
            start = train_start_epoch(config)
            existing = {epoch: name for epoch, name in existing.items() if epoch < start}
        newest = newest_intact_checkpoint(existing)
        for damage in newest.skipped:
            log.print_warning(f"{damage.reason} {'The one before is taken.' if newest.checkpoint else ''}")
        if newest.checkpoint is not None and newest.epoch:
            self.names.epochs.current = newest.epoch + 1
            return ModelToLoad(newest.epoch, newest.checkpoint)
        if newest.skipped:
            raise ConfigError(
                f"option 'model': all {len(newest.skipped)} checkpoints of {self.names.model!r} are damaged. "
                f"The newest: {newest.skipped[0].reason}\n  'start_epoch = 1' starts anew, and writes over them."
            )
        self.names.epochs.current = start_epoch_without_model(config)
        imported = config.options.import_model_train_epoch1 or config.options.load
        return ModelToLoad(filename=imported or newest.checkpoint)

    def _lock_for_writing(self) -> None:
        horovod = get_ctx(self.config)
        if self.lock is not None and self.are_written and (horovod is None or horovod.rank() == 0):
            self.check_folder()
            self.lock.acquire()

    def close(self) -> None:
        """Other processes may write the model files now."""
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
        text = f"models of epochs {', '.join(map(str, epochs)) or 'none'}"
        if ask_for_confirmation and not (epochs and confirm(f"Delete {text} of {sorted(checkpoints)}?")):
            print(f"nothing is deleted; superfluous are {text}", file=log.v1)
            return
        num_bytes = sum(delete_checkpoint(checkpoints[epoch]) for epoch in epochs)
        if epochs:
            print(f"deleted {text}, {human_bytes_size(num_bytes)}", file=log.v3)
