"""What code of users finds as layers of a layer, in a search: with batch and hypotheses as one axis."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from returnn.tensor import Tensor
from returnn.tf.layers.options.layer_options import map_nested_layers


@contextlib.contextmanager
def layers_seen_merged(layer: Any, attributes: Sequence[str], merge: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """
    While code of a user runs, the layers in these attributes have other outputs.

    :param layer: the layer that the code belongs to
    :param attributes: of it, with layers, also in lists or dicts
    :param merge: function of an output: what is seen of it
    """
    given = {name: getattr(layer, name) for name in attributes}

    def seen(other: Any) -> Any:
        view = copy.copy(other)
        view.output = merge(other.output)
        return view

    for name, value in given.items():
        setattr(layer, name, map_nested_layers(value, seen))
    try:
        yield
    finally:
        for name, value in given.items():
            setattr(layer, name, value)
