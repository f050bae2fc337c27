"""
Operations over all workers of a training, by TensorFlow's own collectives. Without a group of workers, a worker is
alone, and all of them return what they get.

All workers make the same operations in the same order, so a number in this order tells which ones belong together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count

import tensorflow as tf

_BUCKET_BYTES = 4 << 20  # gradients are sent in such parts, each as soon as it is there
_keys = count(1)


@dataclass(frozen=True)
class WorkerGroup:
    """The workers of a training."""

    size: int
    timeout_s: float  # how long one waits for another
    is_one_batch: bool = True  # whether the batches of all workers in a step count as one


_group: WorkerGroup | None = None


def current_group() -> WorkerGroup | None:
    """:return: None if this process is alone"""
    return _group


def set_current_group(group: WorkerGroup | None) -> None:
    """:param group: from now on"""
    global _group
    _group = group


@contextmanager
def group_ctx(group: WorkerGroup | None) -> Iterator[None]:
    """Inside of the `with` block, this is the group."""
    before = current_group()
    set_current_group(group)
    try:
        yield
    finally:
        set_current_group(before)


def all_reduce(value: tf.Tensor, *, merge: str = "Add") -> tf.Tensor:
    """
    :param value: of the same static shape on all workers
    :param merge: "Add", "Max", "Min"
    :return: over all workers
    """
    group = current_group()
    if group is None:
        return value
    return tf.raw_ops.CollectiveReduceV2(
        input=value,
        group_size=group.size,
        group_key=1,
        instance_key=next(_keys),
        ordering_token=[],
        merge_op=merge,
        final_op="Id",
        timeout_seconds=float(group.timeout_s),
    )


def norm_factor_of_all(norm_factor: tf.Tensor) -> tf.Tensor:
    """
    :param norm_factor: scalar, 1 / number of frames of this worker
    :return: 1 / number of frames of all workers, if their batches count as one
    """
    group = current_group()
    if group is None or not group.is_one_batch:
        return norm_factor
    frames = tf.math.reciprocal_no_nan(norm_factor)
    return tf.math.reciprocal_no_nan(all_reduce(tf.stop_gradient(frames)))


def share_of_constraints(constraints: tf.Tensor) -> tf.Tensor:
    """:return: the part of a worker, if the sum over all workers is to have the constraints once"""
    group = current_group()
    return constraints if group is None or not group.is_one_batch else constraints / group.size


Gradient = tf.Tensor | tf.IndexedSlices | None


def sum_gradients(grads: Sequence[Gradient], variables: Sequence[tf.Variable], *, mean: bool) -> list[Gradient]:
    """
    :param grads: of the objective of this worker
    :param variables: what they are for. Rows of gradients become a whole gradient, as the others have other rows
    :param mean: of the workers, rather than the sum
    :return: sums over all workers, None where there was none
    """
    group = current_group()
    if group is None:
        return list(grads)
    dense = [None if grad is None else _dense(grad, var) for grad, var in zip(grads, variables, strict=True)]
    out: list[Gradient] = [None] * len(dense)
    for bucket in _buckets(dense):
        flat = tf.concat([tf.reshape(dense[i], [-1]) for i in bucket], 0)
        total = all_reduce(flat) / group.size if mean else all_reduce(flat)
        sizes = [variables[i].shape.num_elements() for i in bucket]
        for i, part in zip(bucket, tf.split(total, sizes), strict=True):
            out[i] = tf.reshape(part, variables[i].shape)
    return out


def _dense(grad: tf.Tensor | tf.IndexedSlices, var: tf.Variable) -> tf.Tensor:
    grad = tf.convert_to_tensor(grad)
    grad.set_shape(var.shape)  # the size of a collective is part of the graph
    return grad


def _buckets(grads: Sequence[tf.Tensor | None]) -> list[list[int]]:
    """:return: numbers of the gradients that are sent together: those that are there first come first"""
    buckets: list[list[int]] = []
    open_buckets: dict[tf.DType, int] = {}  # bytes in the last bucket of a dtype
    last: dict[tf.DType, list[int]] = {}
    for i in reversed(range(len(grads))):
        grad = grads[i]
        if grad is None:
            continue
        num_bytes = grad.shape.num_elements() * grad.dtype.size
        if grad.dtype not in last or open_buckets[grad.dtype] + num_bytes > _BUCKET_BYTES:
            last[grad.dtype], open_buckets[grad.dtype] = [], 0
            buckets.append(last[grad.dtype])
        last[grad.dtype].append(i)
        open_buckets[grad.dtype] += num_bytes
    return buckets
