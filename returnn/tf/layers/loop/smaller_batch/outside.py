"""
What a loop over fewer sequences sees of the graph around it.

The body of a loop captures tensors of the graph around: outputs of layers, lengths, masks, the size of the batch,
parameters. Here, those with a batch are cut down to the sequences that are left, once for all frames of the body, and
what was computed of their shapes and lengths is computed again. So layers in the body need not know that the batch is
smaller.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from returnn.tensor import Dim, Tensor
from returnn.tf.frontend_low_level.products.rows_of_batch import Noted, noted_of
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.loop.smaller_batch.sequences_left import SequencesLeft

_SAME_FOR_EACH_SEQUENCE = frozenset({
    "Add", "AddV2", "BroadcastTo", "Cast", "ConcatV2", "Equal", "ExpandDims", "Fill", "FloorDiv", "FloorMod",
    "GatherV2", "Greater", "GreaterEqual", "Identity", "Less", "LessEqual", "LogicalAnd", "LogicalNot", "LogicalOr",
    "Maximum", "Minimum", "Mul", "Neg", "NotEqual", "OnesLike", "Pack", "Pow", "Range", "RealDiv", "Reshape",
    "SelectV2", "Shape", "Slice", "Squeeze", "StopGradient", "StridedSlice", "Sub", "Tanh", "Tile", "Transpose",
    "ZerosLike",
})  # fmt: skip
_ELEMENTWISE = frozenset({"Cast", "Identity", "Mul", "SelectV2", "StopGradient", "ZerosLike"})
_REDUCTIONS = frozenset({"All", "Any", "Max", "Mean", "Min", "Prod", "Sum"})


class NotForFewerSequencesError(Exception):
    """It is not known what something is for fewer sequences."""


class KnownTensors:
    """The values of the networks around a loop, of which it is known which axis is the batch."""

    def __init__(self, network: Network, batch: Dim) -> None:
        """
        :param network: around the loop
        :param batch: the whole batch
        """
        self.batch = batch
        self.axes: dict[int, int | None] = {}  # by id of the raw tensor; None without batch
        self.size_of_batch = batch.get_dim_value()
        self._keep_alive: list[Any] = []
        for x in (*_outputs_around(network), *network.beams.tensors()):
            self._add(x)

    def axis_of(self, x: Any) -> int | None:
        """:return: of a raw tensor, which axis is the batch, as far as that follows from known ones; otherwise None"""
        if id(x) in self.axes:
            return self.axes[id(x)]
        op = x.op
        # To a shape that begins with the size of the batch, as layers give it.
        if op.type == "Reshape" and op.inputs[1].op.type == "Pack" and op.inputs[1].op.inputs[0] is self.size_of_batch:
            return 0 if self.axis_of(op.inputs[0]) == 0 else None
        same = [y for y in op.inputs if y.shape.rank == x.shape.rank] if op.type in _ELEMENTWISE else []
        return next((axis for y in same if (axis := self.axis_of(y)) is not None), None)

    def _add(self, x: Tensor) -> None:
        raw = x._raw_tensor
        if raw is None or not tf.is_tensor(raw) or id(raw) in self.axes:
            return
        dynamic = [dim for dim in x.dims if dim.size is None and dim != self.batch]
        for dim in dynamic:
            lengths = dim.dyn_size_ext
            if lengths is None or dim.is_batch_dim() or self.batch not in lengths.dims:
                return  # its size may follow from that of the batch
        self._keep_alive.append(raw)
        self.axes[id(raw)] = x.dims.index(self.batch) if self.batch in x.dims else None
        for dim in dynamic:
            self._add(dim.dyn_size_ext)
            longest = dim.get_dim_value()
            if tf.is_tensor(longest):
                self._keep_alive.append(longest)
                self.axes[id(longest)] = None


def _outputs_around(network: Network | None) -> Iterator[Tensor]:
    while network is not None:
        yield from network.extern_data.data.values()
        yield from _outputs_in(network)
        network = network.parent_net


def _outputs_in(network: Network) -> Iterator[Tensor]:
    for layer in list(network.layers.values()):
        yield layer.output
    for inner in network.subnets.values():
        net = getattr(inner, "net", inner)
        if hasattr(net, "layers"):
            yield from _outputs_in(net)


class ForSequencesLeft:
    """Function from tensors of the graph around a loop to what they are for the sequences that are left."""

    def __init__(self, graph: Any, left: SequencesLeft, known: KnownTensors) -> None:
        """
        :param graph: in which the results are computed
        :param left: the sequences
        :param known: which tensors have a batch
        """
        self.graph = graph
        self.left = left
        self.known = known
        self.capture_whole = graph.capture
        self._results: dict[int, tuple[Any, Any]] = {}  # by id of the tensor: itself, so that the id stays its own

    def __call__(self, x: Any) -> Any:
        """
        :raises NotForFewerSequencesError: if it is not known what this is for fewer sequences
        """
        if id(x) not in self._results:
            with self.graph.as_default(), tf.control_dependencies(None):
                self._results[id(x)] = x, self._compute(x)
        return self._results[id(x)][1]

    def _compute(self, x: Any) -> Any:
        if x is self.known.size_of_batch:
            return tf.shape(self.left.indices)[0]
        if id(x) in self.known.axes:
            axis = self.known.axes[id(x)]
            return x if axis is None else self.left.of_whole_batch(self.capture_whole(x), axis)
        noted = noted_of(x)
        if noted is not None:
            return self._of_noted(noted)
        op = x.op
        if x.dtype == tf.resource or (x.shape.rank == 0 and op.type in _REDUCTIONS) or self._is_without_batch(x):
            return x
        if op.type not in _SAME_FOR_EACH_SEQUENCE:
            raise NotForFewerSequencesError(f"{x.name} ({op.type})")
        inputs = [self(y) for y in op.inputs]
        if all(a is b for a, b in zip(inputs, op.inputs, strict=True)):
            return x
        if _takes_one_entry(op):
            raise NotForFewerSequencesError(f"{x.name} is of a single sequence")
        new = self.graph.create_op(
            op.type, inputs, [y.dtype for y in op.outputs], attrs={k: op.node_def.attr[k] for k in op.node_def.attr}
        )
        return new.outputs[x.value_index]

    def _of_noted(self, noted: Noted) -> Any:
        if noted.source is None or noted.compute is None:
            return noted.x
        if self.known.axis_of(noted.source) == 0:
            return self.left.of_whole_batch(self.capture_whole(noted.x))
        return noted.compute(self(noted.source))

    def _is_without_batch(self, x: Any) -> bool:
        """:return: whether it depends on nothing that is fed, but for numbers"""
        seen: set[int] = set()
        todo = [x]
        while todo:
            y = todo.pop()
            if id(y) in seen or self.known.axes.get(id(y), 0) is None:
                continue
            seen.add(id(y))
            is_fed = y.op.type in ("Placeholder", "PlaceholderWithDefault") and y.dtype != tf.bool
            if y is self.known.size_of_batch or id(y) in self.known.axes or is_fed:
                return False
            if not (y.shape.rank == 0 and y.op.type in _REDUCTIONS):
                todo.extend(y.op.inputs)
        return True


def _takes_one_entry(op: Any) -> bool:
    """:return: whether it takes some entries along the first axis, which may be the batch; not of a shape"""
    if op.type not in ("Slice", "StridedSlice"):
        return False
    whole = op.inputs[0]
    if whole.shape.rank == 1:
        return whole.op.type not in ("ConcatV2", "Pack", "Shape")
    return op.type == "Slice" or not op.get_attr("begin_mask") & op.get_attr("end_mask") & 1


@contextmanager
def seen_for_sequences_left(left: SequencesLeft, known: KnownTensors) -> Iterator[None]:
    """While the current graph is made, which is a function, what it captures is that of the sequences that are left."""
    graph = tf.compat.v1.get_default_graph()
    results = ForSequencesLeft(graph, left, known)

    def capture(x: Any, *args: Any, **kwargs: Any) -> Any:
        is_outside = tf.is_tensor(x) and x.graph is not graph
        return results.capture_whole(results(x) if is_outside else x, *args, **kwargs)

    graph.capture = capture
    try:
        yield
    finally:
        graph.capture = results.capture_whole
