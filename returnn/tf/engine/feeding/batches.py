"""Batches of a data set, as the options say, on their way into a session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from returnn.datasets.core.batch_generator import BatchSetGenerator
from returnn.datasets.core.dataset import Dataset
from returnn.engine.run.batch_feeder import BatchFeeder
from returnn.engine.run.batches import generate_batches
from returnn.engine.training_position import TrainingPosition
from returnn.tf.engine.feeding.data_pipeline import DatasetDataProvider, PipelineFeeder
from returnn.tf.engine.feeding.feed import FeedBatch, FeedMaker
from returnn.tf.engine.session.network_session import NetworkSession


def batches_of(
    session: NetworkSession, dataset: Dataset, *, train: bool, filters: bool | None = None, batch_size: int = 0
) -> BatchSetGenerator:
    """
    :param session: with a network
    :param dataset: after `init_seq_order`
    :param train: whether it is for training
    :param filters: whether sequences are left out because of their length; default: in training
    :param batch_size: 0: that of the config
    :return: batches of the epoch that the data set is in, within the limits of the config
    """
    batches = generate_batches(
        session.config,
        dataset,
        used_keys=session.network.get_used_data_keys(),
        train=train,
        epoch=max(session.epoch, 1),
        filters=filters,
        batch_size=batch_size,
    )
    workers = session.workers
    if workers is not None and workers.shards_data:
        batches.keep_every(workers.size, first=workers.rank)
    return batches


def forward_batches(session: NetworkSession, dataset: Dataset, *, batch_size: int) -> BatchSetGenerator:
    """Like `batches_of`, without training. All sequences, unless `allow_skipping_seqs_in_forward`."""
    filters = session.config.options.allow_skipping_seqs_in_forward
    return batches_of(session, dataset, train=False, filters=filters, batch_size=batch_size)


def make_feed_maker(session: NetworkSession, dataset: Dataset, fetches: Any = None) -> FeedMaker:
    """
    :param session: with a network
    :param dataset: after its `init_seq_order`
    :param fetches: what will be computed, see `FeedMaker`
    :return: what loads batches of the data set
    """
    with session.tf_session.graph.as_default():  # where lengths are looked up; each thread has its own current graph
        return FeedMaker(
            dataset,
            session.network.extern_data,
            used_keys=session.network.get_used_data_keys(),
            fetches=fetches,
            enforce_min_len1=session.config.options.enforce_min_len1,
        )


def make_feeder(
    session: NetworkSession,
    dataset: Dataset,
    batches: BatchSetGenerator,
    fetches: Any,
    *,
    while_waiting: Callable[[], None] = lambda: None,
    resumed_at: TrainingPosition | None = None,
) -> BatchFeeder[FeedBatch]:
    """
    :param session: with a network
    :param dataset: after its `init_seq_order`
    :param batches: of the epoch; with `dataset_pipeline`, they are made in another way
    :param fetches: what will be computed
    :param while_waiting: called again and again while there is no batch; can raise
    :param resumed_at: begin behind the batches of this position
    :return: context over which to iterate: the batches
    """
    config, maker = session.config, make_feed_maker(session, dataset, fetches)
    options: dict[str, Any] = {
        "capacity": config.options.tf_data_provider_capacity,
        "wait_limit_s": config.options.data_wait_limit_s,
        "while_waiting": while_waiting,
        "resumed_at": resumed_at,
    }
    if not config.options.dataset_pipeline:
        return BatchFeeder(maker, batches, **options)
    provider = session.built.made_once(
        ("pipeline", id(dataset), *maker.data_keys),
        lambda: DatasetDataProvider(
            session.network.extern_data, config, {dataset.name: dataset}, data_keys=maker.data_keys
        ),
    )
    return PipelineFeeder(maker, batches, provider=provider, session=session.tf_session, **options)
