"""The data of a config, as templates."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping

import returnn.frontend as rf
from returnn.config import Config
from returnn.datasets.util.data_description import described_data, found_input, template_of_description
from returnn.tensor import Tensor, TensorDict
from returnn.tensor.tensor_dict import MissingTensorError
from returnn.util.errors import ConfigError


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


def descriptions_with_dims_of(config: Config, templates: TensorDict) -> dict[str, object] | None:
    """
    A description such as `{"dim": 40}` has other dims whenever it is read.

    :param config: its option `extern_data`
    :param templates: as they were read once, see `extern_data_of_config`
    :return: what the option can be in place of that, to have these dims; None: it names all of its dims itself
    """
    descriptions: Mapping[str, object] = described_data(config)
    unnamed = [key for key, description in descriptions.items() if not _names_dims(description)]
    return {**descriptions, **{key: templates[key] for key in unnamed}} if unnamed else None


def _names_dims(description: object) -> bool:
    return isinstance(description, Mapping) and bool(description.get("dims") or description.get("dim_tags"))


def keys_not_said_to_be_unavailable(config: Config) -> list[str]:
    """:return: of the data that can be the input of a step without targets, as no `available_for_inference` is False"""
    descriptions: Mapping[str, object] = described_data(config)
    return [key for key, description in descriptions.items() if _available_for_inference(description)]


def _available_for_inference(description: object) -> bool:
    if isinstance(description, Mapping):
        return bool(description.get("available_for_inference", True))
    return bool(getattr(description, "available_for_inference", True))


@contextlib.contextmanager
def explains_missing_data(templates: Callable[[], TensorDict]) -> Iterator[None]:
    """
    :param templates: of all data of the config
    :raises ConfigError: if the code in the `with` block asks for data that is declared, but not given to a forward step
    """
    try:
        yield
    except MissingTensorError as exc:
        name = exc.tensor_name
        described = templates().data.get(name)
        if described is None or described.available_for_inference:
            raise
        raise ConfigError(
            f"there is no data {name!r} here, as 'extern_data' has it with available_for_inference False.\n"
            "  Leave that out, or do not ask for it in the step: it is not known when a model is used."
        ) from exc


def _with_time_dim(template: Tensor) -> Tensor:
    """:return: the frames of a sequence are along its first dynamic dim, if the config says no other one"""
    if template.time_dim_axis is not None:
        return template
    frames = next((dim for dim in template.dims if dim.size is None and not dim.is_batch_dim()), None)
    return template if frames is None else template.copy_with_roles(time_dim=frames)
