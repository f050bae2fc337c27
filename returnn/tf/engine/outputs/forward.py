"""Outputs of a network for a data set, into an HDF file."""

from __future__ import annotations

import os
from typing import Any

import numpy

from returnn.datasets.core.dataset import Dataset
from returnn.datasets.hdf.hdf_writer import SimpleHDFWriter
from returnn.log import log
from returnn.tensor import Dim, Tensor, batch_dim
from returnn.tf.engine.feeding.batches import forward_batches
from returnn.tf.engine.passes.data_pass import DataPass
from returnn.tf.engine.session.network_session import NetworkSession
from returnn.util.errors import ConfigError, UserError
from returnn.util.texts.counted import counted


def forward_to_hdf(
    session: NetworkSession, dataset: Dataset, output_file: str, *, output_layer: str | None = None, batch_size: int = 0
) -> None:
    """
    :param session: with a network
    :param dataset: what goes in
    :param output_file: HDF file, in the layout of `HDFDataset`
    :param output_layer: default: `forward_output_layer` of the config, or the output of the network. What has no
        frames, [B, F] or [B], is one frame of each sequence
    :param batch_size: 0: that of the config
    :raises ConfigError: if the file exists, without `forward_override_hdf_output`
    """
    config = session.config
    name = output_layer or config.options.forward_output_layer
    output = _with_frames(session.network.get_layer(name).output.copy_as_batch_major())
    if os.path.exists(output_file) and not config.options.forward_override_hdf_output:
        raise ConfigError(f"{output_file!r} exists.\n  Set 'output_file', or 'forward_override_hdf_output'.")
    axes = {axis - 1: dim for axis, dim in enumerate(output.dims) if axis and dim.size is None}
    fetches: dict[str, Any] = {"output": output.raw_tensor}
    fetches.update({f"lengths/{axis}": dim.get_dyn_size_ext_for_device("cpu").raw_tensor for axis, dim in axes.items()})
    labels = output.vocab.labels if output.vocab is not None else None
    dataset.init_seq_order(session.epoch or 1)
    with SimpleHDFWriter(
        output_file, dim=output.dim, ndim=len(output.dims) - 1, labels=labels, replace_existing_file=True
    ) as writer:

        def collect(**values: Any) -> None:
            raw = values["output"]
            lengths = {axis: numpy.broadcast_to(values[f"lengths/{axis}"], (len(raw),)) for axis in axes}
            try:
                writer.insert_batch(raw, lengths, data_pass.current_tags)
            except UserError as exc:
                raise UserError(f"forward: layer {name!r}: {exc}") from exc

        data_pass = DataPass(
            session,
            dataset_name="forward",
            dataset=dataset,
            eval=False,
            batches=forward_batches(session, dataset, batch_size=batch_size),
            extra_fetches=fetches,
            extra_fetches_callback=collect,
        )
        data_pass.run("forward", raise_exception=True)
    print(f"forward: {counted(data_pass.num_seqs, 'sequence')}, wrote {output_file!r}", file=log.v1)


def _with_frames(output: Tensor) -> Tensor:
    """:return: with an axis of frames, of which each sequence of an HDF file has one; of one frame if there is none"""
    if any(dim not in (batch_dim, output.feature_dim) for dim in output.dims):
        return output
    return output.copy_add_dim_by_tag(Dim(1, name="frame"), unbroadcast=True, axis=1)
