"""
Data in an order in which no sequence goes on in the next batch, for a network that keeps states from batch to batch.

Data for evaluation is sorted by length, if its description says no order. The states are then those of others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from returnn.datasets.core.dataset import Dataset
from returnn.datasets.core.seq_order import is_by_length
from returnn.tf.layers.loop.across_batches.kept_state import WORDS

_NETS = ("unit", "subnetwork")


def kept_order_warning(net_dict: Mapping[str, Any], name: str, dataset: Dataset) -> str | None:
    """
    :param net_dict: of the network
    :param name: of the data set, as in the config
    :param dataset: what the network is run on
    :return: None if no state is kept, or the order is another one
    """
    order = dataset.seq_ordering
    layer = next(_layers_with_kept_states(net_dict), None)
    if layer is None or not is_by_length(order):
        return None
    return (
        f"data {name!r} is in the order {order!r}, but layer {layer!r} keeps its state from batch to batch, for "
        "sequences which go on there.\n  'seq_ordering': 'default' in the description of the data leaves them in order."
    )


def _layers_with_kept_states(net_dict: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """:return: names of layers, also of those in others"""
    for name, layer in net_dict.items():
        if not isinstance(layer, Mapping):
            continue
        options = [layer.get(key) for key in ("initial_state", "initial_output")]
        states = [x for option in options for x in _parts(option)]
        if any(isinstance(x, str) and x in WORDS for x in states):
            yield f"{prefix}{name}"
        for inner in (layer.get(key) for key in _NETS):
            if isinstance(inner, Mapping):
                yield from _layers_with_kept_states(inner, f"{prefix}{name}/")


def _parts(option: Any) -> Iterable[Any]:
    """:return: of each part of a state"""
    if isinstance(option, Mapping):
        return option.values()
    return option if isinstance(option, (list, tuple)) else [option]
