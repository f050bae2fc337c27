"""The data of a config, as templates."""

from __future__ import annotations

from collections.abc import Mapping

import returnn.frontend as rf
from returnn.config import Config
from returnn.datasets.util.data_description import described_data, found_input, template_of_description
from returnn.tensor import Tensor, TensorDict


def extern_data_of_config(config: Config) -> TensorDict:
    """
    :param config: its options `extern_data`, `default_float_dtype`
    :return: templates by key; the dims of the config have no lengths of before
    :raises ConfigError: if a description is wrong
    """
    descriptions: Mapping[str, object] = described_data(config)
    dtype = config.options.default_float_dtype or rf.get_default_float_dtype()
    default_input = found_input(descriptions, default_input=config.options.default_input, target=config.options.target)
    templates = TensorDict()
    for key, description in descriptions.items():
        template = template_of_description(key, description, is_input=key == default_input, float_dtype=dtype)
        templates.data[key] = _with_time_dim(template)
    for dim in templates.all_dims():
        dim.reset_raw()
    return templates


def _with_time_dim(template: Tensor) -> Tensor:
    """:return: the frames of a sequence are along its first dynamic dim, if the config says no other one"""
    if template.time_dim_axis is not None:
        return template
    frames = next((dim for dim in template.dims if dim.size is None and not dim.is_batch_dim()), None)
    return template if frames is None else template.copy_with_roles(time_dim=frames)
