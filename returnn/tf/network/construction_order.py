"""
In which order the layers of a network are made.

A layer makes what it needs when it is made itself. At the end of a chain of hundreds of layers, that would be hundreds
of calls inside of each other, and TensorFlow keeps the whole stack of calls with each operation. So the sources are
made first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.options.registry import get_layer_class
from returnn.util.errors import ConfigError


def sources_first(name: str, net_dict: Mapping[str, Any]) -> list[str]:
    """
    :param name: of a layer in the net dict
    :param net_dict: options of each layer, by name
    :return: the layers of this net dict that it needs as sources, each behind its own sources; the last one is itself
    """
    order: dict[str, None] = {}
    seen: set[str] = set()
    todo = [name]
    while todo:
        current = todo[-1]
        if current in seen:
            order[todo.pop()] = None
            continue
        seen.add(current)
        sources = [source for source in _sources(net_dict[current]) if source in net_dict]
        todo += [source for source in reversed(sources) if source not in seen]
    return list(order)


def _sources(options: Any) -> list[str]:
    """:return: names in `from`, as far as it is sure that the layer needs them"""
    try:
        layer_class = get_layer_class(options["class"])
    except (ConfigError, KeyError, TypeError):  # what is wrong is said when the layer is made
        return []
    method = getattr(layer_class.transform_config_dict, "__func__", None)
    if method is not vars(LayerBase)["transform_config_dict"].__func__:
        return []
    names = options.get("from", "data")
    names = names if isinstance(names, (list, tuple)) else [names]
    return [source for source in names if isinstance(source, str)]
