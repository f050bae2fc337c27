"""
Outputs that are computed from the very label that they predict, as in a language model without `shift_axis`.

Such a model learns to copy: its error goes to 0 within an epoch, and it is of no use. Only what is certain is said: on
the way from the data to the output, each layer is one of which it is known which frames it sees.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from returnn.tf.network.extern_data import ExternData

_OF_ONE_FRAME = (
    "activation", "batch_norm", "cast", "combine", "copy", "dropout", "eval", "gating", "layer_norm", "linear", "norm",
    "positional_encoding", "softmax",
)  # fmt: skip
_SHIFTS = ("shift_axis", "prefix_in_time", "slice")  # by a frame or two: where all are seen, the others stay in sight
NetDict = Mapping[str, Any]


def seen_target_warnings(net_dict: NetDict, extern_data: ExternData) -> Iterator[str]:
    """
    :param net_dict: of a network
    :param extern_data: its data
    :return: a line for each layer with cross entropy that sees its target
    """
    for name, key in layers_that_predict(net_dict, extern_data):
        names = {f"data:{key}", *(["data"] if key == extern_data.default_input else [])}
        path = _path_to(names, net_dict, name)
        if path is not None:
            yield (
                f"layer {name!r} predicts {key!r}, and sees the label that it predicts: {' <- '.join(path)}. For the "
                "labels before, there is {'class': 'shift_axis', 'axis': 'T', 'amount': 1, 'pad_value': 0, "
                "'adjust_size_info': False}, 'attention_left_only': True for 'self_attention', and no layer backwards."
            )


def layers_that_predict(net_dict: NetDict, extern_data: ExternData) -> Iterator[tuple[str, str]]:
    """
    :param net_dict: of a network
    :param extern_data: its data
    :return: layers with cross entropy against labels of the data, and the keys of these
    """
    for name, layer in net_dict.items():
        key = layer.get("target") if isinstance(layer, Mapping) and layer.get("loss") == "ce" else None
        if isinstance(key, str) and key in extern_data.data and extern_data.data[key].sparse:
            yield name, key


@dataclass(frozen=True)
class _Seen:
    """Which frames of the data the output sees, counted from its own one: all from the first to the last one."""

    first: float = 0
    last: float = 0

    def behind(self, layer: NetDict) -> _Seen | None:
        """:return: the same for the sources of a layer, if for the layer it is this; None if it is not known"""
        kind = layer.get("class")
        if kind == "shift_axis" and isinstance(layer.get("amount"), int):
            return _Seen(self.first - layer["amount"], self.last - layer["amount"])
        if kind in _SHIFTS:
            return _Seen(-math.inf, math.inf) if self.last == math.inf else None
        if kind == "rec" and isinstance(layer.get("unit", "lstm"), str):
            is_backward = layer.get("direction") == -1
            return _Seen(self.first if is_backward else -math.inf, math.inf if is_backward else self.last)
        if kind == "self_attention":
            return _Seen(-math.inf, self.last if layer.get("attention_left_only") else math.inf)
        window = 1 if kind in _OF_ONE_FRAME else _window(layer)
        return None if window is None else _Seen(self.first - window // 2, self.last + (window - 1) // 2)


def _window(layer: NetDict) -> int | None:
    """:return: number of frames around the one of the output, in an even one more of those before; None if unknown"""
    size = layer.get("filter_size")
    if layer.get("class") != "conv" or layer.get("padding") not in ("same", "SAME"):
        return None
    size = size[0] if isinstance(size, (list, tuple)) and len(size) == 1 else size
    is_plain = all(layer.get(option, 1) in (1, (1,), [1], None) for option in ("strides", "dilation_rate"))
    return size if isinstance(size, int) and is_plain and layer.get("in_spatial_dims") is None else None


def _path_to(data: set[str], net_dict: NetDict, output: str) -> list[str] | None:
    """:return: layers from the output to the data, on which the frame of the output is seen"""
    waiting = [([output], _Seen())]
    known: set[tuple[str, _Seen]] = set()
    while waiting:
        path, seen = waiting.pop()
        if path[-1] in data and len(path) > 1:
            if seen.first <= 0 <= seen.last:
                return path
            continue
        layer = net_dict.get(path[-1])
        if (path[-1], seen) in known or not isinstance(layer, Mapping):
            continue
        known.add((path[-1], seen))
        of_sources = seen.behind(layer)
        if of_sources is not None:
            sources = layer.get("from", "data")
            waiting += [([*path, name], of_sources) for name in ([sources] if isinstance(sources, str) else sources)]
    return None
