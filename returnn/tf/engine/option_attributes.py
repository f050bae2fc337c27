"""Attributes of an engine that are options of its config, as scripts read and set them."""

from __future__ import annotations

from typing import Any

from returnn.config import Config


class OptionAttribute:
    """An option of `engine.config`. What is set holds for the batches and epochs that come."""

    def __init__(self, option: str) -> None:
        """:param option: its name"""
        self.option = option

    def __get__(self, engine: HasOptions | None, owner: type) -> Any:
        return self if engine is None else getattr(engine.config.options, self.option)

    def __set__(self, engine: HasOptions, value: Any) -> None:
        engine.config.set(self.option, value)


class HasOptions:
    """What an engine is documented to have of its config."""

    config: Config

    batch_size = OptionAttribute("batch_size")
    max_seqs = OptionAttribute("max_seqs")
    max_pad_size = OptionAttribute("max_pad_size")
    max_seq_length = OptionAttribute("max_seq_length")
    min_seq_length = OptionAttribute("min_seq_length")
    inc_seq_length = OptionAttribute("inc_seq_length")
    seq_drop = OptionAttribute("seq_drop")
    shuffle_batches = OptionAttribute("shuffle_batches")
    initial_learning_rate = OptionAttribute("learning_rate")
    pretrain_learning_rate = OptionAttribute("pretrain_learning_rate")
    save_epoch1_initial_model = OptionAttribute("save_epoch1_initial_model")
    init_train_epoch_posthook = OptionAttribute("init_train_epoch_posthook")
