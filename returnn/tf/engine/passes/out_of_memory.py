"""What to say when memory ends in a step: which layers have the largest outputs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy
import tensorflow as tf

from returnn.tensor import Dim
from returnn.tf.network import TFNetwork
from returnn.tf.util.op_error import op_error_text
from returnn.util.errors import UserError
from returnn.util.texts.human_readable import human_bytes_size

_NUM_SHOWN = 4


@dataclass(frozen=True)
class LayerSize:
    """The output of a layer, with padding."""

    name: str
    dims: tuple[str, ...]
    num_bytes: int

    def __str__(self) -> str:
        return f"{self.name!r} [{', '.join(self.dims)}] {human_bytes_size(self.num_bytes)}"


def out_of_memory_error(
    where: str,
    exc: tf.errors.OpError,
    network: TFNetwork,
    session: tf.compat.v1.Session,
    feed: dict[Any, Any],
    *,
    reason: str = "",
) -> UserError:
    """
    :param where: step and sequences
    :param exc: of the step
    :param network: its layers are told
    :param session: of the step
    :param feed: of the step
    :param reason: why it was not done in parts, if it is a step of a training
    :return: at most five lines
    """
    layers = sorted(layer_sizes(network, session, feed), key=lambda layer: -layer.num_bytes)
    total = human_bytes_size(sum(layer.num_bytes for layer in layers))
    shown = "; ".join(map(str, layers[:_NUM_SHOWN]))
    not_split = f"  Not split into parts, as {reason}.\n" if reason else ""
    return UserError(
        f"{where}: memory is not enough: {op_error_text(exc)}\n"
        f"{not_split}"
        f"  Largest outputs of layers: {shown or 'none is known'}. All {len(layers)}: {total}.\n"
        "  Set 'batch_size' to \"auto\" or less; 'max_seq_length' leaves out long sequences,\n"
        "  'gradient_checkpoint' of a subnetwork keeps less."
    )


def layer_sizes(network: TFNetwork, session: tf.compat.v1.Session, feed: dict[Any, Any]) -> list[LayerSize]:
    """
    Computes lengths, and no layer, as far as lengths do not depend on values.

    :param network: with its layers
    :param session: of the network
    :param feed: of a step
    :return: of the layers outside of loops, each output once
    """
    found: dict[Any, LayerSize] = {}
    lengths: dict[Dim, int | None] = {}
    for layer in network.get_all_layers_deep():
        raw = layer.output.raw_tensor if layer.output is not None else None
        if not isinstance(raw, tf.Tensor) or raw.graph is not session.graph or raw.ref() in found:
            continue
        sizes = [_length(dim, session, feed, lengths) for dim in layer.output.dims]
        if None in sizes:
            continue
        names = [f"{dim.name or dim.kind} {size}" for dim, size in zip(layer.output.dims, sizes, strict=True)]
        num_bytes = math.prod(size or 0 for size in sizes) * raw.dtype.size
        found[raw.ref()] = LayerSize(layer.get_absolute_name(), tuple(names), num_bytes)
    return list(found.values())


def _length(dim: Dim, session: tf.compat.v1.Session, feed: dict[Any, Any], known: dict[Dim, int | None]) -> int | None:
    """:return: of the padded dim; None if it cannot be computed now"""
    if dim.size is not None:
        return dim.size
    if dim not in known:
        raw = dim.dyn_size
        try:
            value = session.run(raw, feed) if isinstance(raw, tf.Tensor) and raw.graph is session.graph else None
        except tf.errors.OpError:  # it depends on what did not fit
            value = None
        known[dim] = None if value is None else int(numpy.max(value, initial=0))
    return known[dim]
