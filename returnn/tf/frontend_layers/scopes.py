"""
Lengths of dims in a net dict that is being recorded.

They are outputs of layers, and are kept by the network in which they are valid, see `returnn.tensor.scope`. Where a
layer needs a dim which none of its sources has, the dim has to get its lengths before: `definers` says from what.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from returnn.frontend._backend import get_selected_backend
from returnn.tensor import Dim, Tensor
from returnn.tensor.scope import Store
from returnn.tf.frontend_layers.layer import Layer

BACKEND_NAME = "returnn_layers_tf"


def current_stores() -> Sequence[Store]:
    """:return: where values of dims are kept that are valid here, innermost first; nothing if nothing is recorded"""
    return Layer.top().stores() if get_selected_backend() == BACKEND_NAME else ()


@contextlib.contextmanager
def network_of_value(raw_tensor: Layer) -> Iterator[None]:
    """Inside of the `with` block, new layers go to the loop, branch or root that the layer belongs to."""
    around = raw_tensor.parent
    while around is not None and not (around.is_root or around.new_control_flow_ctx is not None):
        around = around.parent
    if around is None or around is _control_flow_of(Layer.top()):
        yield
        return
    with around:
        yield


def lengths_of(dim: Dim) -> Tensor[Any] | None:
    """:return: lengths with a layer; None if it has a fixed size, or they are not known"""
    if dim.size is not None:
        return None
    lengths = dim.dyn_size_ext
    return lengths if lengths is not None and isinstance(lengths.raw_tensor, Layer) else None


def dims_without_lengths(dims: Sequence[Dim], sources: Sequence[Tensor[Any]]) -> list[Dim]:
    """
    :param dims: of a layer, and in its options
    :param sources: its operands
    :return: those which are not computed from the dims of the sources: something else has to give them their lengths
    """
    known = [atom for x in sources for dim in (*x.dims, x.sparse_dim) if dim is not None for atom in _atoms(dim)]
    wanted: list[Dim] = []
    for dim in dims:
        for atom in _atoms(dim):
            if atom.size is None and atom not in known and atom not in wanted and lengths_of(atom) is not None:
                wanted.append(atom)
    return wanted


def _atoms(dim: Dim) -> list[Dim]:
    """:return: the dims that it was computed from; itself, if it was not"""
    base = dim.get_same_base()
    found: list[Dim] = []
    if base.length_rule is not None:
        found += _atoms(base.length_rule.source)  # type: ignore[arg-type]
    elif base.is_derived():
        for atom in base.expression.atoms():
            if atom is base:
                found.append(base)
            else:
                found += _atoms(atom)
    else:
        found.append(base)
    return found


def _control_flow_of(place: Layer) -> Layer:
    return next(p for p in place.ancestors() if p.is_root or p.new_control_flow_ctx is not None)
