"""
All options that the toolkit reads: `config.options.NAME` is the value, `OPTIONS["NAME"]` the declaration.

From these declarations come the values and their defaults, the check of types, `rnn.py --help NAME`, and the page
docs/reference/options.md.
"""

from __future__ import annotations

from typing import Any

from returnn.config.option import Option, OptionTable
from returnn.config.options.data import BatchOptions, DataOptions
from returnn.config.options.expert import DebuggingOptions, OperationOptions, TensorFlowOptions
from returnn.config.options.frontend import ModelOptions, TorchOptions
from returnn.config.options.network import CheckpointOptions, NetworkOptions
from returnn.config.options.run import CheckOptions, LogOptions, RunOptions
from returnn.config.options.tasks import EvaluationOptions, ForwardOptions, SearchOptions, StatisticsOptions
from returnn.config.options.training import (
    DistributedOptions,
    LearningRateOptions,
    PrecisionOptions,
    PretrainOptions,
    TrainingOptions,
    UpdaterOptions,
)


class Options(
    RunOptions,
    LogOptions,
    CheckOptions,
    DataOptions,
    BatchOptions,
    NetworkOptions,
    ModelOptions,
    TrainingOptions,
    LearningRateOptions,
    UpdaterOptions,
    PretrainOptions,
    CheckpointOptions,
    EvaluationOptions,
    SearchOptions,
    ForwardOptions,
    StatisticsOptions,
    TensorFlowOptions,
    TorchOptions,
    OperationOptions,
    DistributedOptions,
    PrecisionOptions,
    DebuggingOptions,
):
    """The options of all themes."""


def options_of_table(table: type[OptionTable]) -> dict[str, Option[Any]]:
    """:return: by name, those which the class itself declares"""
    return {name: option for name, option in vars(table).items() if isinstance(option, Option)}


TABLES = Options.__bases__
OPTIONS = {name: option for table in TABLES for name, option in options_of_table(table).items()}
