"""
What is done when memory ends in a training step: the step is done in parts, where that gives the same result.

The gradients of parts of the sequences are summed up, and fed in place of those of the step. That is the gradient of
the whole batch, if each loss is a sum over sequences that do not depend on each other, and nothing but parameters
changes in a step. Whether losses are such sums is tried with two sequences. Dropout leaves out other entries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy
import tensorflow as tf

from returnn.engine.run.parts import sum_of_values
from returnn.tf.engine.feeding.parts import seqs_of_feed
from returnn.tf.engine.passes.score_fetches import numbers_of_unaligned, score_fetches
from returnn.tf.engine.session.graph_ops import ops_before
from returnn.tf.engine.session.network_session import NetworkSession
from returnn.tf.util.parameters.custom_update import CustomUpdate

tf1 = tf.compat.v1

Feed = dict[Any, Any]
Gradient = Any  # array; or some rows of it, with their indices

_TOLERANCE, _TOLERANCE_OF_SHORT_FLOATS = 1e-3, 2e-2  # of sums over sequences, relative


class NotInParts(Exception):
    """Says why a step cannot be done in parts."""


class StepInParts:
    """A training step of a network, for which memory was not enough."""

    def __init__(
        self,
        session: NetworkSession,
        fetches: Mapping[str, Any],
        feed: Feed,
        *,
        num_seqs: int,
        seed: Callable[[int], Feed],
    ) -> None:
        """
        :param session: with the network
        :param fetches: of the step, with its update
        :param feed: of the step
        :param num_seqs: in the batch
        :param seed: what makes dropout follow from the step and the number of the part
        """
        self._session = session
        self._fetches = dict(fetches)
        self._feed = feed
        self._num_seqs = num_seqs
        self._seed = seed
        network, updater = session.network, session.updater
        assert updater is not None
        self._scores = {**score_fetches(network), **numbers_of_unaligned(fetches)}
        self._gradients = [_fetched(grad) for grad in updater.all_grads if grad is not None]
        pairs = zip(updater.all_vars, updater.all_grads, strict=True)
        self._variables = [var for var, grad in pairs if grad is not None]
        holders = network.losses_dict.items()
        norms = {name: loss.get_norm_factor() for name, loss in holders if loss.loss.use_normalized_loss}
        self._norms = {f"norm:{name}": norm for name, norm in norms.items() if isinstance(norm, tf.Tensor)}

    def run(self) -> tuple[dict[str, Any], int]:
        """
        Does the step.

        :return: values of its fetches, and the number of parts
        :raises NotInParts: if parts would not give the same, or do not fit either
        """
        reason = reason_against_parts(self._session, self._feed)
        if reason is not None:
            raise NotInParts(reason)
        if self._num_seqs < 2:
            raise NotInParts("even one sequence does not fit")
        self._session.built.made_once("losses are sums", self._check_losses)
        num_parts = 1
        while num_parts < self._num_seqs:
            num_parts = min(2 * num_parts, self._num_seqs)
            parts = [self._part(part) for part in _slices(self._num_seqs, num_parts)]
            try:
                feed, scores = self._sums(parts)
            except tf.errors.ResourceExhaustedError:
                continue
            return {**self._session.tf_session.run(self._fetches, feed), **scores}, num_parts
        raise NotInParts(f"{num_parts} parts do not fit either")

    def _part(self, seqs: slice) -> Feed:
        return seqs_of_feed(self._feed, self._session.network.extern_data, seqs)

    def _check_losses(self) -> bool:
        """:return: True. :raises NotInParts: if a loss of two sequences is not the sum of theirs"""
        built = self._session.built
        names = [name for name in self._scores if name.startswith(("loss:", "norm:"))]
        fetches = {name: self._scores[name] for name in names}
        flags = built.flags_feed(train_flag=False)
        try:
            both, *each = (
                self._session.tf_session.run(fetches, {**self._part(seqs), **self._seed(0), **flags})
                for seqs in (slice(0, 2), slice(0, 1), slice(1, 2))
            )
        except tf.errors.ResourceExhaustedError as exc:
            raise NotInParts("two sequences do not fit, with which it is tried whether losses are sums") from exc
        is_short = self._session.config.options.tf_amp is not None
        tolerance = _TOLERANCE_OF_SHORT_FLOATS if is_short else _TOLERANCE
        for name, total in sum_of_values(each).items():
            if not abs(both[name] - total) <= tolerance * sum(abs(one[name]) for one in each) + 1e-6:
                raise NotInParts(f"the loss {name.partition(':')[2]!r} is not a sum over the sequences")
        return True

    def _sums(self, parts: Sequence[Feed]) -> tuple[Feed, dict[str, Any]]:
        """:return: feed of the last part, with the gradients of all, for the update; scores of all"""
        run = self._session.tf_session.run
        names = [name for name in self._scores if name.startswith("norm:")]
        norms = [run({name: self._scores[name] for name in names}, part) for part in parts]
        of_all = sum_of_values(norms)
        common = {norm: of_all[name] for name, norm in self._norms.items()}
        total: list[Gradient] = []
        scores: list[dict[str, Any]] = []
        feed: Feed = {}
        for i, part in enumerate(parts):
            feed = {**part, **self._seed(i), **common}
            values, gradients = run((self._scores, self._gradients), feed)
            total = gradients if not total else [_sum(a, b) for a, b in zip(total, gradients, strict=True)]
            scores.append({**values, **norms[i]})
        too_much = run(self._gradients_of_constraints())
        total = [_without(a, b, len(parts) - 1) for a, b in zip(total, too_much, strict=True)]
        return {**feed, **_fed(self._gradients, total)}, sum_of_values(scores)

    def _gradients_of_constraints(self) -> list[Any]:
        """:return: raw, by variable, which each part has; a scalar where there is none"""
        built, network = self._session.built, self._session.network

        def make() -> list[Any]:
            found = tf.gradients([network.total_constraints], self._variables)
            return [tf.zeros([]) if grad is None else tf.convert_to_tensor(grad) for grad in found]

        return list(built.made_once("gradients of constraints", make))


def reason_against_parts(session: NetworkSession, feed: Mapping[Any, Any]) -> str | None:
    """
    :param session: with the network
    :param feed: of a step
    :return: why no step can be done in parts, for people; None if nothing is known
    """
    if session.workers is not None:
        return "the other workers wait for the whole step"
    if session.config.options.dataset_pipeline:
        return "with 'dataset_pipeline', batches are not made here"
    updates = [*tf1.get_collection(tf1.GraphKeys.UPDATE_OPS), *session.network.get_post_control_dependencies()]
    if updates:
        name = getattr(updates[0], "op", updates[0]).name
        return f"{name!r} is done with the whole batch, as statistics over it are"
    assert session.updater is not None
    custom = [var.op.name for var in session.updater.trainable_vars if CustomUpdate.of_var(var) is not None]
    if custom:
        return f"{custom[0]!r} is updated from the whole batch"
    meta = sorted({*session.updater.optim_meta_losses_dict} - {"grad_norm"})
    if meta:
        return f"the loss {meta[0]!r} is about gradients"
    constraints = ops_before(session.network.total_constraints)
    if any(isinstance(fed, tf.Tensor) and fed.op in constraints for fed in feed if fed is not session.built.train_flag):
        return "a constraint depends on the data"
    return None


def _slices(num_seqs: int, num_parts: int) -> list[slice]:
    bounds = [num_seqs * i // num_parts for i in range(num_parts + 1)]
    return [slice(start, end) for start, end in pairwise(bounds)]


def _fetched(gradient: tf.Tensor | tf.IndexedSlices) -> Any:
    return (gradient.values, gradient.indices) if isinstance(gradient, tf.IndexedSlices) else gradient


def _sum(a: Gradient, b: Gradient) -> Gradient:
    if isinstance(a, tuple):
        return tuple(numpy.concatenate(pair) for pair in zip(a, b, strict=True))
    return a + b


def _without(gradient: Gradient, constraint: numpy.ndarray, times: int) -> Gradient:
    """:return: without so many times the gradient of constraints, which is a scalar where there are none"""
    if not numpy.ndim(constraint):
        return gradient
    if isinstance(gradient, tuple):
        return _sum(gradient, (-times * constraint, numpy.arange(len(constraint), dtype=gradient[1].dtype)))
    return gradient - times * constraint


def _fed(gradients: Sequence[Any], values: Sequence[Gradient]) -> Feed:
    feed: Feed = {}
    for gradient, value in zip(gradients, values, strict=True):
        feed.update(zip(gradient, value, strict=True) if isinstance(gradient, tuple) else [(gradient, value)])
    return feed
