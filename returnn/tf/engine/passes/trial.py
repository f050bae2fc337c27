"""A step that computes gradients and forgets them, to see whether there is memory enough."""

from __future__ import annotations

import tensorflow as tf

from returnn.datasets.core.dataset import Dataset
from returnn.engine.run.auto_batch_size import Tried
from returnn.engine.run.batches import tried_batch
from returnn.tf.engine.feeding.batches import batches_of, make_feed_maker
from returnn.tf.engine.feeding.feed import FeedBatch
from returnn.tf.engine.session.graph_ops import feed_without_others, gradients_op
from returnn.tf.engine.session.network_session import NetworkSession
from returnn.tf.frontend_low_level.raw_random import run_seed_feed


def try_batch(session: NetworkSession, dataset: Dataset, batch_size: int) -> Tried:
    """
    :param session: with a network that is trained
    :param dataset: at the beginning of an epoch
    :param batch_size: frames
    :return: whether the gradients of a step fit into memory
    """
    updater = session.updater
    assert updater is not None
    updater.get_optim_op(callback_on_new=session.initialize_updater_vars)
    op = gradients_op(session.built.graph, [grad for grad in updater.all_grads if grad is not None])
    alone = feed_without_others(op)

    def fits(batch: FeedBatch) -> bool:
        feed = {**batch.feed_dict, **alone, **session.built.flags_feed(train_flag=True)}
        feed.update(run_seed_feed(session.built.graph, [0]))
        if session.network.epoch_step is not None:
            feed[session.network.epoch_step] = 0
        try:
            session.tf_session.run(op, feed)
        except tf.errors.ResourceExhaustedError:
            return False
        return True

    batches = batches_of(session, dataset, train=True, batch_size=batch_size)
    return tried_batch(batches, make_feed_maker(session, dataset, op), fits)
