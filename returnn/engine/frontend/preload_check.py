"""Whether the files of `preload_from_files` are there, and fit a model in Python that has no values yet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import returnn.frontend as rf
from returnn.config import Config
from returnn.config.preloaded_file import preloaded_files, warn_of_missing_files
from returnn.engine.data_identity import warn_of_labels_of_preloaded
from returnn.engine.frontend.preload import ValuesToPreload
from returnn.engine.model_names import existing_models
from returnn.util.backend_engine import BackendEngine
from returnn.util.errors import UserError
from returnn.util.python.optional_import import import_part


@dataclass(frozen=True)
class _ParameterTemplate:
    shape: tuple[int | None, ...]


def preload_errors(config: Config, model: Any) -> Iterator[str]:
    """
    :param config: its option `preload_from_files`
    :param model: on templates
    :return: errors, at most one for each file
    """
    trains = config.has("train")
    if trains:
        warn_of_missing_files(config.options.preload_from_files)
    has_own = bool(existing_models(config))
    parameters = _parameters(model)
    for file in preloaded_files(config.options.preload_from_files, ValuesToPreload):
        if file.is_to_check(trains=trains, has_own_checkpoint=has_own, names=parameters):
            try:
                with file.opened():
                    content = _content(file.filename)
                values = file.values(parameters, content)
                warn_of_labels_of_preloaded(file, config, {name: parameters[name].shape for name in values})
            except UserError as exc:
                yield str(exc)


def _parameters(model: Any) -> dict[str, Any]:
    """:return: objects with a shape, by name"""
    if isinstance(model, rf.Module):
        params = model.named_parameters()
        return {name: _ParameterTemplate(tuple(dim.size for dim in param.dims)) for name, param in params}
    needed_for = BackendEngine.describe_selected()
    return import_part("returnn.torch.engine.parameters", needed_for=needed_for).model_parameters(model)


def _content(filename: str) -> dict[str, Any]:
    needed_for = f"reading {filename!r}"
    if BackendEngine.is_torch_selected():
        return import_part("returnn.torch.checkpoint", needed_for=needed_for).load_model_file(filename)
    checkpoints = import_part("returnn.tf.checkpoint_rf", needed_for=needed_for)
    return checkpoints.values_by_path(checkpoints.read_checkpoint(filename))
