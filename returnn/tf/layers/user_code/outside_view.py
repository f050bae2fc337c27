"""
What a layer is for who looks at it from outside.

In a search, the beam is a dim of its own, and so layers see it which are made of others. Whoever looks at a layer that
is complete, such as code of users and engines, sees batch and beam as one axis. So there are two views on the output of
a layer, and which of them one gets depends on whether layers are being made.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import tensorflow as tf

from returnn.frontend import get_selected_backend
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.network_protocol import AnyLayer
from returnn.tf.layers.user_code.beam_axis import BeamAxis
from returnn.tf.util.activations import OutputWithActivation


class _Making(threading.local):
    """What goes on in a thread: several ones can make networks at the same time."""

    def __init__(self) -> None:
        self.depth = 0  # of contexts in which layers are made
        self.made: list[AnyLayer] = []  # in them, with values


_making = _Making()


@dataclass(frozen=True)
class OutsideView:
    """The outputs of a layer, with batch and beam as one axis."""

    output: Tensor
    before_activation: OutputWithActivation | None


def view_from_here(layer: AnyLayer) -> OutsideView | None:
    """:return: the outputs, as they are seen now; None: as they were made, with the beam as a dim of its own"""
    view: OutsideView | None = None if _making.depth else layer.outside_view
    return view


@contextlib.contextmanager
def making_layers() -> Iterator[None]:
    """Layers are made inside of the `with` block. Behind the outermost one, those which it has made are complete."""
    _making.depth += 1
    try:
        yield
    finally:
        _making.depth -= 1
    _complete_if_outside()


def note_made(layer: AnyLayer) -> None:
    """
    :param layer: a new one. Templates are never seen from outside
    """
    if get_selected_backend() != "template":
        _making.made.append(layer)
        _complete_if_outside()


def _complete_if_outside() -> None:
    while _making.made and not _making.depth:
        _complete(_making.made.pop(0))


def _complete(layer: AnyLayer) -> None:
    """Gives a layer both views: classes on raw tensors have made the one from outside, all others the other one."""
    output = layer.output
    raw = None if output is None else output.raw_tensor
    if getattr(raw, "graph", None) is not tf.compat.v1.get_default_graph():
        return  # it has no value, or is inside of a condition or a loop of TensorFlow
    if any(net.inside_rec_time_dim is not None for net in layer.network.get_network_hierarchy()):
        return
    axes: dict[Dim, BeamAxis] = layer.network.beams.axes
    own = BeamAxis.of([output])
    if own is not None:
        axis = axes.setdefault(own.beam, own)  # one for all layers, as their dims are to stay equal
        layer.outside_view = OutsideView(axis.merge(output), _merged(layer.output_before_activation, axis))
        return
    merged = next((axis for axis in axes.values() if axis.both in output.dims), None)
    if merged is not None:
        act = layer.output_before_activation
        layer.output = merged.split(output)
        layer.outside_view = OutsideView(output, act)


def _merged(act: OutputWithActivation | None, axis: BeamAxis) -> OutputWithActivation | None:
    if act is None or act.before is None:
        return act
    return OutputWithActivation(axis.merge(act.before), act.act_func, act.act_func_opts)
