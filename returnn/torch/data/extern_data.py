"""The data of a batch, as tensors of the frontend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

import returnn.frontend as rf
from returnn.datasets.core.batch_arrays import SEQ_IDX_KEY, SEQ_TAG_KEY, axes_of_lengths
from returnn.datasets.util.data_description import template_of_description
from returnn.tensor import Tensor, TensorDict, batch_dim
from returnn.torch.data.tensor_utils import numpy_to_torch


def extern_data_template_from_config_opts(descriptions: TensorDict | Mapping[str, Any]) -> TensorDict:
    """
    :param descriptions: the option `extern_data` of a config
    :return: templates by key
    """
    if isinstance(descriptions, TensorDict):
        descriptions = descriptions.data
    dtype = rf.get_default_float_dtype()
    return TensorDict(
        {
            key: template_of_description(key, description, is_input=key == "data", float_dtype=dtype)
            for key, description in descriptions.items()
        }
    )


def raw_dict_to_extern_data(
    arrays: Mapping[str, Any], templates: TensorDict, *, num_seqs: int, device: str | torch.device
) -> TensorDict:
    """
    :param arrays: padded arrays by data key, and their lengths, (batch,), in frames, by KEY_seq_lens; those of further
        dims are named by `axes_of_lengths`
    :param templates: by key. Their dims get the lengths of the batch
    :param num_seqs: of the batch
    :param device: where the values go; the lengths stay on the CPU
    :return: the data, and `seq_tag` (texts, as array), for those keys that there are arrays of
    """
    for dim in templates.all_dims():
        dim.reset_raw()
    batch_dim.reset_raw()
    batch_dim.dyn_size_ext = Tensor(
        "batch_dim:size", dims=(), dtype="int32", raw_tensor=torch.tensor(num_seqs, dtype=torch.int32)
    )
    batch = TensorDict()
    for key, template in templates.data.items():
        if key not in arrays:
            continue
        for name, axis in axes_of_lengths(template, key).items():
            dim = template.dims[axis]
            if name in arrays and dim.size is None:
                lengths = numpy_to_torch(arrays[name])
                dim.dyn_size_ext = Tensor(f"{dim.name}:lengths", dims=[batch_dim], dtype="int32", raw_tensor=lengths)
        value = numpy_to_torch(arrays[key])
        tensor = template.copy_template()
        if isinstance(value, torch.Tensor):
            tensor.dtype = str(value.dtype).removeprefix("torch.")
            value = value.to(device, non_blocking=True)
        tensor.raw_tensor = value
        batch.data[key] = tensor
    for key in (SEQ_TAG_KEY, SEQ_IDX_KEY):
        if key in arrays and key not in batch:
            value = numpy_to_torch(arrays[key])
            dtype = "string" if key == SEQ_TAG_KEY else "int32"
            batch.data[key] = Tensor(key, dims=[batch_dim], dtype=dtype, raw_tensor=value)
    return batch
