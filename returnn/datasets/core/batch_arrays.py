"""Copies the frames of a batch from the data set into padded arrays."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from returnn.datasets.core.batch import Batch, BatchSeqCopyPart
from returnn.datasets.core.dataset import Dataset
from returnn.datasets.core.dataset_seq import Array
from returnn.datasets.core.extern_data import ExternDataLike
from returnn.util.errors import ConfigError
from returnn.util.texts.counted import counted

SEQ_TAG_KEY = "seq_tag"
SEQ_IDX_KEY = "seq_idx"


def batch_to_raw_dict(
    batch: Batch,
    *,
    dataset: Dataset,
    extern_data: ExternDataLike,
    data_keys: Collection[str],
    enforce_min_len1: bool = False,
    exclude_data_key: Collection[str] | None = None,
) -> dict[str, Array]:
    """
    :param batch: which frames
    :param dataset: after `init_seq_order`; the sequences of the batch get loaded
    :param extern_data: templates by key; the arrays have their axes and dtypes
    :param data_keys: which data keys. "seq_tag" and "seq_idx" may be among them.
    :param enforce_min_len1: whether the padded arrays have at least one frame
    :param exclude_data_key: which ones not
    :return: by data key, the padded array. For keys with a time axis also `KEY_seq_lens`, (batch,), frames; for further
        axes of no fixed size the sizes, (batch,), as `axes_of_lengths` names them
    """
    assert batch.start_seq is not None
    assert batch.end_seq is not None
    dataset.load_seqs(batch.start_seq, batch.end_seq)
    arrays: dict[str, Array] = {}
    for key in data_keys:
        if exclude_data_key and key in exclude_data_key:
            continue
        if key == SEQ_TAG_KEY:
            arrays[key] = np.array([dataset.get_tag(part.seq_idx) for part in batch.seqs])
        elif key == SEQ_IDX_KEY:
            arrays[key] = np.array([part.seq_idx for part in batch.seqs], dtype=np.int32)
        else:
            arrays.update(_padded_arrays(batch, dataset, extern_data.data[key], key, enforce_min_len1))
    return arrays


def axes_of_lengths(template: Any, key: str) -> dict[str, int]:
    """
    :param template: of the data key, with the batch dim
    :param key: of the data
    :return: by name of an array with lengths: their axis, counted with the batch. `KEY_seq_lens` is for the time,
        `KEY:size2` for another axis of no fixed size
    """
    known = (template.batch_dim_axis, template.time_dim_axis)
    axes = [axis for axis, size in enumerate(template.batch_shape) if size is None and axis not in known]
    frames = {} if template.time_dim_axis is None else {f"{key}_seq_lens": template.time_dim_axis}
    return {**frames, **{f"{key}:size{axis}": axis for axis in axes}}


def further_sizes(template: Any, key: str) -> dict[str, int]:
    """:return: of `axes_of_lengths`, those but the time; the axis is that of an array of one sequence"""
    batch_axis, axes = template.batch_dim_axis, axes_of_lengths(template, key)
    axes.pop(f"{key}_seq_lens", None)
    return {name: axis - (batch_axis is not None and batch_axis < axis) for name, axis in axes.items()}


def check_same_lengths(lengths: Mapping[str, Array], tags: Sequence[Any]) -> None:
    """
    :param lengths: of two data keys that have the same time dim, (batch,), in frames
    :param tags: of the sequences
    :raises ConfigError: if they differ; names the first sequence where they do
    """
    (other, other_lengths), (key, own_lengths) = lengths.items()
    wrong = np.flatnonzero(other_lengths != own_lengths)
    if not wrong.size:
        return
    first = int(wrong[0])
    seq = repr(str(tags[first])) if len(tags) == len(own_lengths) else f"{first} of a batch"
    more = f" and {counted(wrong.size - 1, 'other')} of the batch" if wrong.size > 1 else ""
    raise ConfigError(
        f"extern_data: {other!r} and {key!r} have the same time dim, but other lengths in the sequence {seq}{more}:"
        f" {other_lengths[first]} and {own_lengths[first]}."
    )


def check_shape_of_seq(data: Array, template: Any, key: str) -> None:
    """
    :param data: of a sequence
    :param template: of the data key, with the batch dim
    :param key: of the data
    :raises ConfigError: if it has another number of axes, or other sizes of those behind the first one
    """
    sizes = [size for axis, size in enumerate(template.batch_shape) if axis != template.batch_dim_axis]
    if len(sizes) != data.ndim or any(
        size is not None and size != found for size, found in list(zip(sizes, data.shape, strict=True))[1:]
    ):
        is_one_value = not sizes and data.shape == (1,)  # as HDF files have it
        hint = f"\n  'shape': (1,) in extern_data[{key!r}] is one value for each sequence, too." if is_one_value else ""
        raise ConfigError(
            f"extern_data: {template}, but a sequence of the dataset has {key!r} with the shape {list(data.shape)},"
            f" without batch axis.{hint}"
        )


def _padded_arrays(batch: Batch, dataset: Dataset, template: Any, key: str, enforce_min_len1: bool) -> dict[str, Array]:
    parts = [_data_of_part(dataset, part, key) for part in batch.seqs]
    check_shape_of_seq(parts[0], template, key)
    dtype = None if template.dtype == "string" else template.dtype
    sizes = {name: np.zeros(batch.num_slices, dtype=np.int32) for name in further_sizes(template, key)}
    for name, axis in further_sizes(template, key).items():
        for part, data in zip(batch.seqs, parts, strict=True):
            sizes[name][part.batch_slice] = max(sizes[name][part.batch_slice], data.shape[axis])
    if template.time_dim_axis is None and not sizes:
        return {key: np.stack(parts).astype(dtype or parts[0].dtype)}
    lengths = np.zeros(batch.num_slices, dtype=np.int32)
    offsets = [int(part.batch_frame_offset[key]) for part in batch.seqs]
    for part, offset, data in zip(batch.seqs, offsets, parts, strict=True):
        lengths[part.batch_slice] = max(lengths[part.batch_slice], offset + len(data))
    frame_shape = np.max([data.shape[1:] for data in parts], axis=0).astype(int) if parts[0].ndim > 1 else ()
    num_frames = max(int(lengths.max()), int(enforce_min_len1))
    padded = np.zeros((batch.num_slices, num_frames, *frame_shape), dtype=dtype or parts[0].dtype)
    for part, offset, data in zip(batch.seqs, offsets, parts, strict=True):
        frames = padded[part.batch_slice, offset : offset + len(data)]
        frames[tuple(slice(0, size) for size in data.shape)] = data
    if template.time_dim_axis is None:
        return {key: padded, **sizes}
    if template.batch_dim_axis > template.time_dim_axis:
        padded = padded.swapaxes(0, 1)
    return {key: padded, f"{key}_seq_lens": lengths, **sizes}


def _data_of_part(dataset: Dataset, part: BatchSeqCopyPart, key: str) -> Array:
    start, end = int(part.seq_start_frame[key]), int(part.seq_end_frame[key])
    return dataset.get_data_slice(part.seq_idx, key, start, end)
