"""A layer that writes its source to an HDF file."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy
import tensorflow as tf

from returnn.datasets.hdf.hdf_writer import SimpleHDFWriter
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.side_effects import in_each_step
from returnn.tf.layers.values.length import raw_lengths
from returnn.util.errors import ConfigError, UserError


class HDFDumpLayer(LayerBase):
    """
    Writes the source to an HDF file in each step; `HDFDataset` reads it.

    The output is the source. The file is complete at the end of each run over a data set; the next run adds to it. What
    a run has written until an error is thrown away.
    """

    layer_class = "hdf_dump"

    def __init__(
        self,
        filename: str | Callable[..., str],
        extra: dict[Any, LayerBase] | None = None,
        dump_whole_batches: bool = False,
        labels: Sequence[str] | None = None,
        extend_existing_file: bool = False,
        dump_per_run: bool = False,
        **kwargs: Any,
    ) -> None:
        """
        :param filename: of the file; or a function that returns it
        :param extra: other layers, which become further data keys. "sizes" has the lengths if the source has several
            dims of varying size, "KEY_sizes" those of another layer
        :param dump_whole_batches: a batch is one sequence
        :param labels: names of the labels
        :param extend_existing_file: add to the file if it exists
        :param dump_per_run: a new file for each run over a data set: `filename` is a function which gets `epoch` and
            `dataset_name`
        """
        super().__init__(**kwargs)
        if len(self.sources) != 1:
            raise ConfigError(f"{self.where()}: exactly one source is needed (option 'from'), not {len(self.sources)}.")
        if dump_per_run and not callable(filename):
            raise ConfigError(f"{self.where()}: 'dump_per_run' needs a function for 'filename', not {filename!r}.")
        self.filename = filename
        self.extra = extra or {}
        self.dump_whole_batches = dump_whole_batches
        self.labels = labels
        self.extend_existing_file = extend_existing_file
        self.dump_per_run = dump_per_run
        self._writer: SimpleHDFWriter | None = None
        self._own_files: set[str] = set()
        self._num_batches = 0

    def compute(self, source: Tensor) -> Tensor:
        """:return: the source"""
        output = source.copy()
        if source.raw_tensor is None:
            return output
        self.network.register_run_finished_callback(self._finish)
        self.network.register_graph_reset_callback(self._finish)  # for scripts, which have no runs
        output.raw_tensor = in_each_step(self, source.raw_tensor, [self._write_op(source)])
        return output

    def _write_op(self, source: Tensor) -> tf.Tensor:
        tensors = {"data": source, **{key: layer.output for key, layer in self.extra.items()}}
        ordered = {key: _with_frames_first(self, x) for key, x in tensors.items()}
        raw = {key: (x.raw_tensor, *_lengths(x)) for key, x in ordered.items()}
        flat = tf.nest.flatten(raw)

        def write(tags: numpy.ndarray, *values: numpy.ndarray) -> numpy.int32:
            self._write(ordered, [_as_text(tag) for tag in tags], tf.nest.pack_sequence_as(raw, values))
            return numpy.int32(0)

        return tf.numpy_function(write, [self.network.get_seq_tags(), *flat], tf.int32)

    def _write(self, templates: dict[str, Tensor], tags: list[str], values: dict[str, Sequence[Any]]) -> None:
        if self._writer is None:
            self._writer = self._open(templates)
        (data, *lengths) = _with_some_frame_axis(values.pop("data"))
        extra: dict[Any, list[numpy.ndarray]] = {}
        for key, (key_data, *key_lengths) in values.items():
            extra.update(_by_sequence(key, *_with_some_frame_axis([key_data, *key_lengths])))
        by_axis = dict(enumerate(lengths))
        if self.dump_whole_batches:
            tags, by_axis = (
                [f"batch-{self._num_batches}"],
                {i: [size] for i, size in enumerate(data.shape[: len(lengths) + 1])},
            )
            data, extra = data[None], {key: [numpy.concatenate(parts)] for key, parts in extra.items()}
        self._num_batches += 1
        self._writer.insert_batch(data, by_axis, tags, extra=extra)

    def _open(self, templates: dict[str, Tensor]) -> SimpleHDFWriter:
        source = templates["data"]
        filename = self.filename
        if callable(filename):
            filename = filename(**self.network.get_run_opts()) if self.dump_per_run else filename()
        is_extended = self.extend_existing_file or filename in self._own_files
        if os.path.exists(filename) and not is_extended:
            raise UserError(f"{self.where()}: {filename} exists already. Remove it, or set 'extend_existing_file'.")
        return SimpleHDFWriter(
            filename,
            dim=source.dim,
            labels=self.labels,
            ndim=len(source.dims) - 1 + (not _frame_dims(source)) + self.dump_whole_batches,
            extra_type={
                key: (x.dim, len(x.dims) - len(_frame_dims(x)), x.dtype)
                for key, x in templates.items()
                if key != "data"
            },
            extend_existing_file=is_extended,
        )

    def _finish(self, error_occurred: bool = False) -> None:
        writer, self._writer = self._writer, None
        if writer is None:
            return
        if error_occurred:
            writer.discard()
        else:
            writer.close()
            self._own_files.add(writer.filename)


def _frame_dims(x: Tensor) -> list[Dim]:
    """:return: dims of varying size; if there are none, the time dim"""
    dims = [dim for dim in x.dims if dim.is_dynamic_seq_length() and not dim.is_batch_dim()]
    return dims or ([x.get_time_dim_tag()] if x.have_time_axis() else [])


def _with_frames_first(layer: LayerBase, x: Tensor) -> Tensor:
    if not x.have_batch_axis():
        raise ConfigError(f"{layer.where()}: {x} has no batch dim, so it cannot be stored sequence by sequence.")
    if x.beam is not None:
        raise ConfigError(
            f"{layer.where()}: {x} has all hypotheses of a search, so it cannot be stored sequence by sequence.\n"
            "  A layer of class 'decide' takes the best one."
        )
    batch, frames = x.get_batch_dim_tag(), _frame_dims(x)
    others = [dim for dim in x.dims if dim != batch and dim not in frames]
    return x.copy_transpose([batch, *frames, *others])


def _lengths(x: Tensor) -> list[tf.Tensor]:
    """:return: (B,) for each dim of frames"""
    batch = x.dims[0]
    return [raw_lengths(dim, batch) for dim in _frame_dims(x)]


def _with_some_frame_axis(data_and_lengths: Sequence[numpy.ndarray]) -> list[numpy.ndarray]:
    """
    :param data_and_lengths: (B, frames..., ...), (B,) for each axis of frames
    :return: the same; without frames, what a sequence has becomes its only one
    """
    data, *lengths = data_and_lengths
    return [data, *lengths] if lengths else [data[:, None], numpy.ones(len(data), "int32")]


def _by_sequence(key: Any, data: numpy.ndarray, *lengths: numpy.ndarray) -> dict[Any, list[numpy.ndarray]]:
    """:return: data of each sequence, without padding; flat if it has several axes of frames, which "sizes" tells"""
    rows = [row[tuple(slice(0, lens[i]) for lens in lengths)] for i, row in enumerate(data)]
    if len(lengths) == 1:
        return {key: rows}
    flat = [row.reshape(-1, *row.shape[len(lengths) :]) for row in rows]
    return {key: flat, f"{key}_sizes": list(numpy.stack(lengths, axis=1))}


def _as_text(tag: Any) -> str:
    return tag.decode("utf8") if isinstance(tag, bytes) else str(tag)
