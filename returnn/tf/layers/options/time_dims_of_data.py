"""
Time dims of data of several keys: each has its own, unless `same_dim_tags_as` in `extern_data` says otherwise.

Configs of a time when only static sizes were compared do not say it: below behavior version 1, sources which are joined
in their feature dims are taken to be as long as each other, as the output of a loss and its target are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.frames_of_target import check_of_lengths, checked
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.network_protocol import Network
from returnn.util.behavior_version import BehaviorVersion
from returnn.util.errors import DimError


def with_one_time_dim(layers: Sequence[LayerBase], tensors: Sequence[Tensor], apart: Collection[Dim]) -> list[Tensor]:
    """
    :param layers: sources, which are joined in their feature dims
    :param tensors: their outputs
    :param apart: dims of the loops around
    :return: below behavior version 1, with the first time dim of data for all, which fail where they have other lengths
    """
    found = _found(layers[0].network, tensors, apart)
    if not found or BehaviorVersion.get() >= 1:
        return list(tensors)
    frames = next(iter(found))
    name_of_frames = next(layer.name for layer, x in zip(layers, tensors, strict=True) if frames in x.dims)
    result = []
    for layer, x in zip(layers, tensors, strict=True):
        own = next((dim for dim in x.dims if dim in found and dim != frames), None)
        if own is not None:
            where, frames_of = f"{layer.where()}, joined with {name_of_frames!r}", f"source {name_of_frames!r}"
            if x.raw_tensor is not None:
                check = check_of_lengths(
                    own, frames, where=where, target=layer.name, frames_of=frames_of, kind="source"
                )
                x = checked(x, check)
            x, _ = rf.replace_dim(x, in_dim=own, out_dim=frames)
        result.append(x)
    return result


def one_time_dim_warning(layer: LayerBase) -> str | None:
    """
    :param layer: whose sources are joined
    :return: warning in one line, if `with_one_time_dim` takes their time dims for one
    """
    apart = layer.network.get_all_rec_time_dims()
    tensors = [source.output for source in layer.sources]
    hint = hint_for_time_dims(layer.network, tensors, apart) if BehaviorVersion.get() < 1 else ""
    if not hint:
        return None
    return (
        f"{layer.where()}: joins sources with time dims of several data keys as if these were one. {hint} Since "
        "behavior_version 1, it is an error."
    )


def hint_for_time_dims(network: Network, tensors: Sequence[Tensor], apart: Collection[Dim]) -> str:
    """
    :param network: where the data is
    :param tensors: operands which should have a dim in common
    :param apart: dims of the loops around
    :return: what to do if they have different time dims of data; "" if they have not
    """
    keys = [repr(key) for key in _found(network, tensors, apart).values()]
    return (
        f"If the data of {' and '.join(keys)} has the same lengths, give these the same dim in 'extern_data': "
        "'same_dim_tags_as': {'t': time_dim}, with time_dim = Dim(None, name='time')."
        if keys
        else ""
    )


@contextmanager
def naming_time_dims(network: Network, operands: Sequence[Any]) -> Iterator[None]:
    """An error inside about dims says what to do if it is about time dims of data. See `hint_for_time_dims`."""
    try:
        yield
    except DimError as exc:
        tensors = [x for x in operands if isinstance(x, Tensor)]
        hint = hint_for_time_dims(network, tensors, network.get_all_rec_time_dims())
        if not hint:
            raise
        raise DimError(f"{exc}\n  {hint}") from exc


def _found(network: Network, tensors: Sequence[Tensor], apart: Collection[Dim]) -> dict[Dim, str]:
    """:return: time dims of data in the tensors, with keys; none unless there are several, and each has one at most"""
    if len(tensors) < 2:
        return {}
    key_of: dict[Dim, str] = {}
    for key, data in network.get_root_network().extern_data.data.items():
        if data.have_time_axis() and data.get_time_dim_tag().is_dynamic_seq_length():
            key_of.setdefault(data.get_time_dim_tag(), key)
    of_each = [[dim for dim in x.dims if dim in key_of and dim not in apart] for x in tensors]
    found = {dim: key_of[dim] for dims in of_each for dim in dims}
    return found if len(found) > 1 and all(len(dims) <= 1 for dims in of_each) else {}
