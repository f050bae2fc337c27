"""A step of a model as part of a graph: where data goes in, and what comes out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.datasets.core.batch_arrays import SEQ_IDX_KEY, SEQ_TAG_KEY
from returnn.engine.frontend.batch_arrays import ArrayBatch
from returnn.tensor import Tensor, TensorDict, batch_dim
from returnn.tf.engine.feeding.feed import length_placeholders
from returnn.tf.network.extern_data import ExternData
from returnn.util.python.nested import iter_nested

tf1 = tf.compat.v1


class GraphInputs:
    """Placeholders of the data, and of what a step is told."""

    def __init__(self, templates: TensorDict) -> None:
        """:param templates: of the data, by key; their dims get placeholders as lengths in the current graph"""
        self.extern_data = ExternData()
        self.extern_data.update({key: template.copy_template() for key, template in templates.data.items()})
        batch_dim.reset_raw()
        self.extern_data.create_placeholders()
        for key in (SEQ_TAG_KEY, SEQ_IDX_KEY):
            self.extern_data.add_seq_info(key)
        self.train_flag: tf.Tensor = tf1.placeholder_with_default(tf.constant(False), (), name="train_flag")
        self.epoch: tf.Tensor = tf1.placeholder_with_default(tf.constant(1), (), name="epoch")
        self._batch_size = batch_dim.dyn_size
        # Found now: lengths are looked up in the graph that is the current one.
        self._lengths = {key: length_placeholders(tensor, key) for key, tensor in self.extern_data.data.items()}

    def feed(self, batch: ArrayBatch, *, train_flag: bool, epoch: int) -> dict[Any, Any]:
        """:return: what to feed for a step"""
        feed: dict[Any, Any] = {self.train_flag: train_flag, self.epoch: epoch}
        if self._batch_size.op.type.startswith("Placeholder"):
            feed[self._batch_size] = len(batch.seq_tags)
        for key, tensor in self.extern_data.data.items():
            if key in batch.arrays:
                feed[tensor.raw_tensor] = batch.arrays[key]
                feed |= {placeholder: batch.arrays[name] for name, placeholder in self._lengths[key].items()}
        return feed


@dataclass(frozen=True)
class StepGraph:
    """What a step computes."""

    fetches: dict[str, Any]
    effects: list[tf.Operation]  # what has to run, although nothing depends on it
    modules: dict[str, list[tf.Tensor]]  # path of a module -> what it returns, in the order in which they return


@contextlib.contextmanager
def noted_effects() -> Iterator[list[tf.Operation]]:
    """Notes the operations with effects that are made inside of the `with` block."""
    collection = tf1.get_collection_ref(tf1.GraphKeys.UPDATE_OPS)
    num_before, effects = len(collection), []
    yield effects
    effects += collection[num_before:]


@contextlib.contextmanager
def noted_results(model: Any) -> Iterator[dict[str, list[tf.Tensor]]]:
    """
    Notes what each module returns inside of the `with` block. Inner modules return first.

    :param model: module
    """
    graph, results = tf1.get_default_graph(), {}
    handles = []
    for path, module in model.named_modules():

        def hook(module: Any, args: Any, kwargs: Any, result: Any, path: str = path) -> None:
            raws = [value.raw_tensor for value in iter_nested(result) if isinstance(value, Tensor)]
            floats = [x for x in raws if tf.is_tensor(x) and x.dtype.is_floating and x.graph is graph]  # none in loops
            name = f"{path or 'the model itself'!r} ({type(module).__name__})"
            results.setdefault(name, []).extend(floats)

        handles.append(module.register_forward_hook(hook))
    try:
        yield results
    finally:
        for handle in handles:
            handle.remove()


def as_fetches(values: Mapping[str, rf.Tensor | float]) -> dict[str, Any]:
    """:return: raw tensors by name; numbers are constants"""
    return {name: _raw(value) for name, value in values.items()}


def _raw(value: Any) -> Any:
    return tf.convert_to_tensor(value.raw_tensor if isinstance(value, Tensor) else float(value))
