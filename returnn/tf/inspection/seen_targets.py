"""
Outputs that are computed from the very label that they predict, as in a language model without `shift_axis`.

Such a model learns to copy: its error goes to 0 within an epoch, and it is of no use. Only what is certain is said: on
the way from the data to the output, each layer is one of which it is known which frames it sees.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from returnn.tf.network.extern_data import ExternData

_OF_ONE_FRAME = (
    "activation", "batch_norm", "cast", "combine", "copy", "dropout", "eval", "gating", "layer_norm", "linear", "norm",
    "positional_encoding", "softmax",
)  # fmt: skip
_SHIFTS = ("shift_axis", "prefix_in_time", "slice")  # which drop a frame or two: the others stay in sight
NetDict = Mapping[str, Any]


def seen_target_warnings(net_dict: NetDict, extern_data: ExternData) -> Iterator[str]:
    """
    :param net_dict: of a network
    :param extern_data: its data
    :return: a line for each layer with cross entropy that sees its target
    """
    for name, layer in net_dict.items():
        key = layer.get("target") if isinstance(layer, Mapping) and layer.get("loss") == "ce" else None
        if not isinstance(key, str) or key not in extern_data.data or not extern_data.data[key].sparse:
            continue
        names = {f"data:{key}", *(["data"] if key == extern_data.default_input else [])}
        path = _path_to(names, net_dict, name)
        if path is not None:
            yield (
                f"layer {name!r} predicts {key!r}, and sees the label that it predicts: {' <- '.join(path)}. For the "
                "labels before, there is {'class': 'shift_axis', 'axis': 'T', 'amount': 1, 'pad_value': 0, "
                "'adjust_size_info': False}, 'attention_left_only': True for 'self_attention', and no layer backwards."
            )


def _path_to(data: set[str], net_dict: NetDict, output: str) -> list[str] | None:
    """:return: layers from the output to the data, on which each frame, or that of the output, is seen"""
    waiting = [([output], False)]
    known: set[tuple[str, bool]] = set()
    while waiting:
        path, sees_all = waiting.pop()
        if path[-1] in data and len(path) > 1:
            return path
        layer = net_dict.get(path[-1])
        if (path[-1], sees_all) in known or not isinstance(layer, Mapping):
            continue
        known.add((path[-1], sees_all))
        sees_all = sees_all or _sees_all_frames(layer)
        if _keeps_frames(layer) or (sees_all and (_sees_all_frames(layer) or layer.get("class") in _SHIFTS)):
            sources = layer.get("from", "data")
            waiting += [([*path, source], sees_all) for source in ([sources] if isinstance(sources, str) else sources)]
    return None


def _keeps_frames(layer: NetDict) -> bool:
    """:return: whether the output sees the frame of its input that is at the same place"""
    is_recurrent = layer.get("class") == "rec" and isinstance(layer.get("unit", "lstm"), str)
    return is_recurrent or layer.get("class") in (*_OF_ONE_FRAME, "self_attention")


def _sees_all_frames(layer: NetDict) -> bool:
    if layer.get("class") == "rec":
        return isinstance(layer.get("unit", "lstm"), str) and layer.get("direction") == -1
    return layer.get("class") == "self_attention" and not layer.get("attention_left_only")
