"""
A search in stages: a loop around the loop over frames, whose batch is smaller in each round.

A stage goes on until enough sequences have ended, all hypotheses of each. Then these leave the batch: their scores and
lengths are put aside, and the variables of the loop keep the others. Of a sequence that has left, each frame says that
its hypotheses continue themselves. So what is found is the same as if it had stayed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import tensorflow as tf

from returnn.tensor import Dim, Tensor
from returnn.tf.layers.loop.loop_variables import LoopLayout, LoopVariables
from returnn.tf.layers.loop.smaller_batch.outside import (
    KnownTensors,
    NotForFewerSequencesError,
    seen_for_sequences_left,
)
from returnn.tf.layers.loop.smaller_batch.rules import reason_of_operations
from returnn.tf.layers.loop.smaller_batch.sequences_left import sequences_left

tf1 = tf.compat.v1

LARGEST_SHARE = 0.9  # of the sequences of a stage, which have to be left for another stage to begin
_RESULTS = ("lengths", "cut", "scores", "first")

Condition = Callable[[Mapping[str, Any]], Any]  # function from the variables to a raw bool scalar
RunStage = Callable[[LoopLayout, LoopVariables, Condition], LoopVariables]


def run_in_stages(
    layout: LoopLayout, variables: LoopVariables, goes_on: Condition, run_stage: RunStage
) -> LoopVariables:
    """
    :param layout: dims of the variables
    :param variables: before the first frame
    :param goes_on: whether there is another frame
    :param run_stage: function that goes over frames while its condition holds
    :return: variables after the last frame. Outputs and states of the last frame are of no use
    :raises NotForFewerSequencesError: if it is not known what something around the loop is for fewer sequences
    """
    batch = layout.hypotheses[0]
    known = KnownTensors(layout.compiled.inputs.layer.network, batch)
    names = sorted(variables.as_dict())
    num = tf.shape(variables.ended)[0]
    results = {key: value for key in _RESULTS if (value := getattr(variables, key)) is not None}

    def stage(values: dict[str, Any], all_left: Any, results: dict[str, Any]) -> Any:
        still = tf.where(tf.logical_not(_have_ended(values["ended"])))[:, 0]
        left = sequences_left(tf.gather(all_left, still), num)
        size = tf.cast(tf.shape(still)[0], tf.float32)

        def enough_go_on(values: Mapping[str, Any]) -> Any:
            running = tf.reduce_sum(tf.cast(tf.logical_not(_have_ended(values["ended"])), tf.float32))
            return tf.logical_and(goes_on(values), running > size * LARGEST_SHARE)

        with seen_for_sequences_left(left, known):
            before = LoopVariables(**_only_of(layout, values, still, batch))
            after = run_stage(replace(layout, left=left), before, enough_go_on).as_dict()
        reason = reason_of_operations(tf1.get_default_graph())
        if reason:
            raise NotForFewerSequencesError(reason)
        new = {
            key: tf.tensor_scatter_nd_update(whole, left.indices[:, None], after[key]) for key, whole in results.items()
        }
        return [after[name] for name in names], left.indices, new

    shapes = layout.shapes_of(variables)
    final, _, results = tf1.while_loop(
        lambda values, *_: goes_on(dict(zip(names, values, strict=True))),
        lambda values, left, results: stage(dict(zip(names, values, strict=True)), left, results),
        ([variables.as_dict()[name] for name in names], tf.range(num), results),
        shape_invariants=(
            [shapes[name] for name in names], tf.TensorShape([None]), {key: shapes[key] for key in results}
        ),
        back_prop=False,
    )  # fmt: skip
    return LoopVariables(**{**dict(zip(names, final, strict=True)), **results})


def _have_ended(ended: tf.Tensor) -> tf.Tensor:
    """
    :param ended: (B, K), bool
    :return: (B,), bool: whether all hypotheses have
    """
    return tf.reduce_all(ended, axis=list(range(1, ended.shape.rank)))


def _only_of(layout: LoopLayout, values: Mapping[str, Any], still: tf.Tensor, batch: Dim) -> dict[str, Any]:
    """:return: the variables of those sequences; arrays of all frames stay as they are, for the whole batch"""

    def of(raw: tf.Tensor, template: Tensor) -> tf.Tensor:
        return tf.gather(raw, still, axis=template.dims.index(batch)) if batch in template.dims else raw

    out = dict(values)
    out["prev"] = {path: of(raw, layout.prev[path]) for path, raw in values["prev"].items()}
    out["states"] = {
        path: {key: of(raw, layout.states[path][key]) for key, raw in parts.items()}
        for path, parts in values["states"].items()
    }
    for key in ("ended", *_RESULTS):
        if key in values:
            out[key] = tf.gather(values[key], still)
    return out
