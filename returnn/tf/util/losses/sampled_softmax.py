"""Softmax over a sample of the classes, as for large vocabularies."""

from __future__ import annotations

import tensorflow as tf


def compute_sampled_logits(
    weights: tf.Tensor,
    biases: tf.Tensor,
    labels: tf.Tensor,
    inputs: tf.Tensor,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: tuple[tf.Tensor, tf.Tensor, tf.Tensor] | None = None,
    subtract_log_q: bool = True,
    remove_accidental_hits: bool = False,
    partition_strategy: str = "mod",
    name: str = "compute_sampled_logits",
    seed: int | None = None,
) -> tuple[tf.Tensor, tf.Tensor]:
    """
    Jean et al. 2014, "On using very large target vocabulary for neural machine translation".

    :param weights: (V, F), or several such parts, see `partition_strategy`
    :param biases: (V,)
    :param labels: (N, num_true), classes
    :param inputs: (N, F)
    :param num_sampled: how many classes are sampled
    :param num_classes: V
    :param num_true: how many true classes each input has
    :param sampled_values: (sampled classes, expected count of the true ones, expected count of the sampled ones).
        Default: from a log-uniform distribution, without repetition
    :param subtract_log_q: correct by the logarithm of the expected counts
    :param remove_accidental_hits: a sampled class that is the true one does not count
    :param partition_strategy: of `tf.nn.embedding_lookup`, "mod" or "div"
    :param name: of the operation
    :param seed: of the sample
    :return: logits (N, num_true + num_sampled); (N, num_true + num_sampled): target distribution, 1 / num_true for the
        true classes
    """
    with tf.name_scope(name):
        labels = tf.cast(labels, tf.int64)
        if sampled_values is None:
            sampled_values = tf.random.log_uniform_candidate_sampler(
                labels, num_true=num_true, num_sampled=num_sampled, unique=True, range_max=num_classes, seed=seed
            )
        sampled, true_count, sampled_count = (tf.stop_gradient(x) for x in sampled_values)
        num_sampled = tf.size(sampled)
        classes = tf.concat([tf.reshape(labels, [-1]), sampled], axis=0)
        rows = tf.compat.v1.nn.embedding_lookup(weights, classes, partition_strategy=partition_strategy)
        offsets = tf.compat.v1.nn.embedding_lookup(biases, classes, partition_strategy=partition_strategy)
        split = tf.size(labels)
        true_rows = tf.reshape(rows[:split], [-1, num_true, tf.shape(inputs)[-1]])
        true_logits = tf.einsum("nf,ntf->nt", inputs, true_rows) + tf.reshape(offsets[:split], [-1, num_true])
        sampled_logits = tf.matmul(inputs, rows[split:], transpose_b=True) + offsets[split:]
        if remove_accidental_hits:
            hit = tf.reduce_any(tf.equal(labels[:, :, None], sampled[None, None]), axis=1)
            sampled_logits = tf.where(hit, tf.cast(-1e30, sampled_logits.dtype), sampled_logits)
        if subtract_log_q:
            true_logits -= tf.math.log(tf.cast(true_count, true_logits.dtype))
            sampled_logits -= tf.math.log(tf.cast(sampled_count, sampled_logits.dtype))
        logits = tf.concat([true_logits, sampled_logits], axis=1)
        targets = tf.concat([tf.ones_like(true_logits) / num_true, tf.zeros_like(sampled_logits)], axis=1)
        return logits, targets
