"""
Whether probabilities of labels are computed from these very labels, as in a language model without `rf.shift_right`.

Such a model learns to copy: its perplexity goes to 1, and it is of no use. A step is computed for one sequence, and
once more with another label in its middle: where the target of a cross entropy is another one then, what is estimated
there has to be the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy

import returnn.frontend as rf
from returnn.config import Config
from returnn.engine.frontend.extern_data import extern_data_of_config
from returnn.engine.frontend.functions import ModelFunctions
from returnn.frontend._backend import get_backend_of
from returnn.frontend.loss import watched_cross_entropies
from returnn.tensor import Dim, Tensor, TensorDict, batch_dim

_SAME = 1e-5  # difference by rounding, relative to the largest number
_ANOTHER = 1e-3  # difference by another label

Arrays = Mapping[str, numpy.ndarray]
Estimates = list[tuple[numpy.ndarray, numpy.ndarray]]  # of each cross entropy: classes are the last axis; targets


def keys_of_seen_labels(config: Config, seq: Arrays, *, backend: str) -> Iterator[str]:
    """
    :param config: with `get_model` and `train_step`
    :param seq: data of a sequence by key, without batch axis
    :param backend: that computes, such as "numpy"
    :return: keys of the data whose labels are seen where they are predicted
    """
    before = batch_dim.dyn_size_ext
    try:
        templates = extern_data_of_config(config).data
        keys = [key for key, data in seq.items() if templates[key].sparse and data.ndim == 1 and len(data) > 2]
        if not keys:
            return
        with rf.backend_ctx(backend):
            functions = ModelFunctions(config)
            model = functions.make_model(epoch=1, step=0)
            first, again = (_estimates(functions, model, seq) for _ in range(2))
            for key in keys:
                other = _estimates(functions, model, {**seq, key: _with_another_label(seq[key], templates[key])})
                if any(_is_seen(*three) for three in zip(first, again, other, strict=False)):
                    yield key
    finally:
        batch_dim.dyn_size_ext = None  # a template, that may have been there, would not hide the numbers of now
        batch_dim.dyn_size_ext = before
        rf.reset_run_ctx()


def _with_another_label(labels: numpy.ndarray, template: Tensor) -> numpy.ndarray:
    changed = labels.copy()
    middle = len(labels) // 2
    changed[middle] = (labels[middle] + 1) % (template.dim or 2)
    return changed


def _estimates(functions: ModelFunctions, model: object, seq: Arrays) -> Estimates:
    """:return: of a step, with this sequence alone"""
    data = _batch_of_one(extern_data_of_config(functions.config), seq)
    with watched_cross_entropies() as found:
        functions.train_step(model, data, train_flag=False, step=0, epoch=1)
    return [
        (_array(estimated, [*frames, axis]), _array(target, frames if target.sparse else [*frames, axis]))
        for estimated, target, axis in found
        for frames in [[dim for dim in target.dims if dim != axis]]
        if set(estimated.dims) == {*frames, axis}
    ]


def _array(tensor: Tensor, dims: Sequence[Dim]) -> numpy.ndarray:
    array: numpy.ndarray = get_backend_of(tensor).raw_to_numpy(tensor.copy_transpose(dims).raw_tensor)
    return array


def _batch_of_one(templates: TensorDict, seq: Arrays) -> TensorDict:
    batch_dim.reset_raw()
    batch_dim.dyn_size_ext = rf.convert_to_tensor(numpy.array(1, "int32"), dims=[])
    data = TensorDict()
    for key, array in seq.items():
        template = templates[key]
        rest = [dim for dim in template.dims if not dim.is_batch_dim()]
        for dim, size in zip(rest, array.shape, strict=True):
            if dim.size is None:
                dim.dyn_size_ext = rf.convert_to_tensor(numpy.array([size], "int32"), dims=[batch_dim])
        roles = {"sparse_dim": template.sparse_dim, "feature_dim": template.feature_dim}
        data.data[key] = rf.convert_to_tensor(array[None].astype(template.dtype), dims=[batch_dim, *rest], **roles)
    return data


def _is_seen(
    first: tuple[numpy.ndarray, numpy.ndarray],
    again: tuple[numpy.ndarray, numpy.ndarray],
    other: tuple[numpy.ndarray, numpy.ndarray],
) -> bool:
    """:return: whether estimates differ wherever targets do. If they do by themselves, nothing is known"""
    shapes = {array.shape for array in (first[0], again[0], other[0])}
    if len(shapes) > 1 or first[1].shape != other[1].shape:
        return False
    is_changed = first[1] != other[1]
    if is_changed.ndim == first[0].ndim:  # probabilities
        is_changed = is_changed.any(axis=-1)
    scale = numpy.abs(first[0]).max(initial=0)
    if not is_changed.any() or not numpy.isfinite(scale) or numpy.abs(again[0] - first[0]).max() > _SAME * scale:
        return False
    return bool((numpy.abs(other[0] - first[0]).max(axis=-1)[is_changed] > _ANOTHER * scale).all())
