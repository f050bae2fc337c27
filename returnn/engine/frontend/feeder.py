"""The batches of a pass, loaded by a thread, for models of the frontend."""

from __future__ import annotations

from collections.abc import Callable

from returnn.config import Config
from returnn.datasets.core.batch_generator import BatchSetGenerator
from returnn.engine.frontend.batch_arrays import ArrayBatch, ArrayMaker
from returnn.engine.run.batch_feeder import BatchFeeder
from returnn.engine.training_position import TrainingPosition


def thread_feeder(
    config: Config,
    maker: ArrayMaker,
    batches: BatchSetGenerator,
    *,
    while_waiting: Callable[[], None],
    resumed_at: TrainingPosition | None,
) -> BatchFeeder[ArrayBatch]:
    """:return: as the options of the config want it, see `ModelRunner.feeder`"""
    return BatchFeeder(
        maker,
        batches,
        capacity=config.options.tf_data_provider_capacity,
        wait_limit_s=config.options.data_wait_limit_s,
        while_waiting=while_waiting,
        resumed_at=resumed_at,
    )
