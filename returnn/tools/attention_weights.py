"""Files with attention weights, and networks that differ a bit from those that were trained."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

import numpy

from returnn.datasets.hdf.hdf_writer import SimpleHDFWriter
from returnn.util.errors import UserError
from returnn.util.files.atomic_file import open_atomic

Weights = Mapping[str, numpy.ndarray]  # by name of the layer; all axes but the batch, in the order of the layer
WriteSeq = Callable[[str, Weights, int], None]  # tag, weights, frames of the encoder
_INNER_NETS = ("unit", "subnetwork")


@contextlib.contextmanager
def npy_writer(folder: str) -> Iterator[WriteSeq]:
    """
    :param folder: gets a file for each sequence, named by its tag. `numpy.load(file, allow_pickle=True).item()` is a
        dict with "seq_tag", "encoder_len", and the weights by name of the layer
    """
    os.makedirs(folder, exist_ok=True)

    def write(tag: str, weights: Weights, encoder_len: int) -> None:
        content = {"seq_tag": tag, "encoder_len": encoder_len, **weights}
        with open_atomic(os.path.join(folder, f"{quote(tag, safe=' ')}.npy"), "wb") as file:
            numpy.save(file, numpy.array(content, dtype=object), allow_pickle=True)

    yield write


@contextlib.contextmanager
def hdf_writer(filename: str) -> Iterator[WriteSeq]:
    """
    :param filename: gets all sequences. The weights of the first layer are "data", flat, and those of others have their
        name; "sizes" are sizes of the axes of the first one, "sizes:NAME" of others, and "encoder_len" is there too
    """
    with contextlib.ExitStack() as stack:
        writers: list[SimpleHDFWriter] = []  # opened at the first sequence, when names and types are known

        def write(tag: str, weights: Weights, encoder_len: int) -> None:
            first, *others = weights
            extra: dict[str, Any] = {
                "encoder_len": numpy.array([encoder_len], "int32"),
                "sizes": numpy.array(weights[first].shape, "int32"),
            }
            for name in others:
                extra[name] = weights[name].reshape(-1)
                extra[f"sizes:{name}"] = numpy.array(weights[name].shape, "int32")
            if not writers:
                types = {key: (1, 1, str(value.dtype)) for key, value in extra.items()}
                writers.append(stack.enter_context(SimpleHDFWriter(filename, dim=None, ndim=1, extra_type=types)))
            flat = weights[first].reshape(1, -1)
            writers[0].insert_batch(flat, [flat.shape[1]], [tag], {key: [value] for key, value in extra.items()})

        yield write


def with_options(
    net_dict: Mapping[str, Any], *, dropout: float | None = None, beam_size: int | None = None
) -> dict[str, Any]:
    """
    :param net_dict: options of each layer, by name
    :param dropout: for all layers that have some; None: as it is
    :param beam_size: for all choices; None: as it is
    :return: the same, also for nets inside of layers
    """
    return {name: _layer_with_options(layer, dropout, beam_size) for name, layer in net_dict.items()}


def _layer_with_options(layer: Any, dropout: float | None, beam_size: int | None) -> Any:
    if not isinstance(layer, Mapping):
        return layer  # such as "#config" of a pretraining
    changed = dict(layer)
    if dropout is not None and "dropout" in layer:
        changed["dropout"] = dropout
    if beam_size is not None and layer.get("class") == "choice":
        changed["beam_size"] = beam_size
    for key in _INNER_NETS:
        if isinstance(layer.get(key), Mapping):
            changed[key] = with_options(layer[key], dropout=dropout, beam_size=beam_size)
    return changed


def frames_of_encoder(value: numpy.ndarray, name: str) -> int:
    """
    :param value: output of the layer for a sequence
    :param name: of the layer
    :raises UserError: if it has no frames
    """
    if value.ndim < 2:
        raise UserError(f"option '--enc_layer': the layer {name!r} has no frames, its output is {list(value.shape)}.")
    return len(value)
