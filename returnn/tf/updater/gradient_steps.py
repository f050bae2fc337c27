"""
What happens to the gradients between the backward pass and the update, step by step, for all variables at once.

With accumulation over several steps, `process_gradients` runs only where variables are updated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import tensorflow as tf

from returnn.tf.frontend_low_level import raw_random
from returnn.tf.optimizers.base import Gradient, merge_repeated_rows, to_dense
from returnn.tf.optimizers.clip import clip_factor, global_norm, scale, values_of, with_values
from returnn.tf.updater.gradient_options import VariableOptions, check_tag

_NORMS = "_returnn_gradient_norms"  # attribute of a graph


@dataclass(frozen=True)
class VariableGradient:
    """One variable, its gradient, and what is to be done with it."""

    var: tf.Variable
    grad: Gradient
    options: VariableOptions

    def map_values(self, values: tf.Tensor) -> VariableGradient:
        """:return: the same with other entries"""
        return replace(self, grad=with_values(self.grad, values))


VariablesByTag = Mapping[str, Sequence[tf.Variable]]


def norm_of(items: Sequence[VariableGradient]) -> tf.Tensor:
    """:return: L2 norm of all gradients together, a float32 scalar; of the same ones, it is computed once"""
    graph = tf.compat.v1.get_default_graph()
    made: dict[tuple[int, ...], tuple[Sequence[tf.Tensor], tf.Tensor]] = getattr(graph, _NORMS, {})
    setattr(graph, _NORMS, made)
    values = [values_of(item.grad) for item in items]
    key = tuple(map(id, values))  # they are kept, so that no other tensor gets the same one
    if key not in made:
        made[key] = values, global_norm(values)
    return made[key][1]


def without_repeated_rows(items: Sequence[VariableGradient]) -> list[VariableGradient]:
    """:return: sparse gradients have each index once, so that their entries are those of the dense gradient"""
    return [
        replace(item, grad=merge_repeated_rows(item.grad)) if isinstance(item.grad, tf.IndexedSlices) else item
        for item in items
    ]


def maximize_norm(items: Sequence[VariableGradient]) -> list[VariableGradient]:
    """Adds the gradient of `-maximize_grad_norm * norm` where that is set."""
    factors = {item.options.gradient.maximize_grad_norm for item in items} - {0.0}
    if not factors:
        return list(items)
    norm = norm_of(items)
    more = tf.gradients(norm, [item.var for item in items])
    return [
        item
        if extra is None or not item.options.gradient.maximize_grad_norm
        else replace(
            item,
            grad=to_dense(item.grad, item.var) - item.options.gradient.maximize_grad_norm * to_dense(extra, item.var),
        )
        for item, extra in zip(items, more, strict=True)
    ]


def filter_not_finite(items: Sequence[VariableGradient]) -> list[VariableGradient]:
    """Sets entries to 0 that are not finite, where that is asked for."""

    def filtered(item: VariableGradient) -> VariableGradient:
        if not item.options.gradient.gradient_nan_inf_filter:
            return item
        values = values_of(item.grad)
        return item.map_values(tf.where(tf.math.is_finite(values), values, tf.zeros_like(values)))

    return [filtered(item) for item in items]


def process_gradients(items: Sequence[VariableGradient], vars_by_tag: VariablesByTag) -> list[VariableGradient]:
    """:return: with noise, clipped, and set to 0 where the norm is too large, in this order"""
    items = [_clip_norms(clip_values(_add_noise(item))) for item in items]
    return _set_to_zero(_clip_global_norm(items, vars_by_tag), vars_by_tag)


def _add_noise(item: VariableGradient) -> VariableGradient:
    deviation = item.options.gradient.gradient_noise
    if not deviation:
        return item
    grad = to_dense(item.grad, item.var)
    noise = raw_random.normal(tf.shape(grad), dtype=grad.dtype, truncated=True)
    return replace(item, grad=grad + deviation * noise)


def clip_values(item: VariableGradient) -> VariableGradient:
    """:return: with entries that are at most `gradient_clip`, where that is set"""
    limit = item.options.gradient.gradient_clip
    return item.map_values(tf.clip_by_value(values_of(item.grad), -limit, limit)) if limit else item


def _clip_norms(item: VariableGradient) -> VariableGradient:
    options = item.options.gradient
    if options.gradient_clip_norm:
        item = replace(item, grad=scale(item.grad, clip_factor(norm_of([item]), options.gradient_clip_norm)))
    if options.gradient_clip_avg_norm:
        average = norm_of([item]) / item.var.shape.num_elements()
        item = replace(item, grad=scale(item.grad, clip_factor(average, options.gradient_clip_avg_norm)))
    return item


def _clip_global_norm(items: Sequence[VariableGradient], vars_by_tag: VariablesByTag) -> list[VariableGradient]:
    norms = _NormsByTag(items, vars_by_tag)
    factors: dict[tuple[str | None, float], tf.Tensor] = {}

    def clipped(item: VariableGradient) -> VariableGradient:
        limit, tag = (
            item.options.gradient.gradient_clip_global_norm,
            item.options.gradient.gradient_clip_global_norm_tag,
        )
        if not limit:
            return item
        if (tag, limit) not in factors:
            factors[tag, limit] = clip_factor(norms.get(tag, option="gradient_clip_global_norm_tag"), limit)
        return replace(item, grad=scale(item.grad, factors[tag, limit]))

    return [clipped(item) for item in items]


def _set_to_zero(items: Sequence[VariableGradient], vars_by_tag: VariablesByTag) -> list[VariableGradient]:
    norms = _NormsByTag(items, vars_by_tag)

    def checked(item: VariableGradient) -> VariableGradient:
        limit, tag = item.options.gradient.grad_norm_to_clip_to_zero, item.options.gradient.global_norm_tag
        if not limit:
            return item
        is_small = norms.get(tag, option="global_norm_tag") <= limit  # False if the norm is NaN
        values = values_of(item.grad)
        return item.map_values(tf.where(is_small, values, tf.zeros_like(values)))

    return [checked(item) for item in items]


class _NormsByTag:
    """L2 norms of the gradients of all variables with a tag, each computed once."""

    def __init__(self, items: Sequence[VariableGradient], vars_by_tag: VariablesByTag):
        self._items = items
        self._vars_by_tag = vars_by_tag
        self._norms: dict[str | None, tf.Tensor] = {}

    def get(self, tag: str | None, *, option: str) -> tf.Tensor:
        """:param tag: None: all variables"""
        if tag not in self._norms:
            self._norms[tag] = norm_of(self._with_tag(tag, option))
        return self._norms[tag]

    def _with_tag(self, tag: str | None, option: str) -> Sequence[VariableGradient]:
        if tag is None:
            return self._items
        check_tag(tag, self._vars_by_tag, option=option)
        tagged = {var.ref() for var in self._vars_by_tag[tag]}
        return [item for item in self._items if item.var.ref() in tagged]
