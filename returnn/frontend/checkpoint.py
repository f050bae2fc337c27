"""
Files with parameters, independent of a framework: what one backend has trained, another one can load.

A file is a numpy archive (`.npz`): one array for each parameter, by its name, and a note of step and epoch.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy

from returnn.frontend.module import Module
from returnn.tensor import Tensor
from returnn.util.errors import UserError, nearest_hint
from returnn.util.files.atomic_file import open_atomic
from returnn.util.python.optional_import import import_optional

_META = "__meta__"


def save_params(
    values: Mapping[str, Tensor | numpy.ndarray],
    filename: str | os.PathLike[str],
    *,
    step: int | None = None,
    epoch: int | None = None,
) -> None:
    """
    Writes parameters. The file is complete or absent.

    :param values: by name, such as `dict(model.named_parameters())`; with a graph, as numpy arrays
    :param filename: usually ends with ".npz"
    :param step: number of training steps so far, for people
    :param epoch: number of the epoch, for people
    """
    arrays: dict[str, Any] = {name: _to_numpy(value) for name, value in values.items()}
    if _META in arrays:
        raise UserError(f"{filename}: a parameter cannot be named {_META!r}.")
    arrays[_META] = numpy.array(json.dumps({"step": step, "epoch": epoch}))
    with open_atomic(filename, "wb") as file:
        numpy.savez(file, **arrays)


def load_params(filename: str | os.PathLike[str]) -> dict[str, numpy.ndarray]:
    """
    :param filename: was written by `save_params`
    :return: arrays by name
    :raises UserError: if there is no such file, or it is damaged
    """
    try:
        with numpy.load(filename, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files if name != _META}
    except FileNotFoundError as exc:
        raise UserError(f"{filename}: there is no such file.") from exc
    except (zipfile.BadZipFile, ValueError, EOFError) as exc:
        raise UserError(f"{filename}: this is no file with parameters, or it is damaged: {exc}.") from exc


def load_torch_checkpoint(filename: str | os.PathLike[str]) -> dict[str, numpy.ndarray]:
    """
    :param filename: was written by `torch.save`: a dict of tensors, or a dict which has one under "model" or
        "state_dict"
    :return: arrays by name; floats which numpy does not have as float32
    :raises UserError: if there is nothing of this kind in the file
    """
    torch = import_optional("torch", needed_for=f"reading the PyTorch checkpoint {filename}")
    content = torch.load(filename, map_location="cpu", weights_only=True)
    for key in ("model", "state_dict"):
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            content = content[key]
    if not isinstance(content, dict) or not all(isinstance(value, torch.Tensor) for value in content.values()):
        raise UserError(f"{filename}: expected tensors by name, or a dict with them under 'model'.")
    return {
        name: (value.float() if value.dtype == torch.bfloat16 else value).numpy() for name, value in content.items()
    }


def check_params_complete(model: Module, params: Mapping[str, Any], *, allow_missing: bool = False) -> None:
    """
    :param model: module
    :param params: arrays by name, for its parameters
    :param allow_missing: some may be missing
    :raises UserError: if a parameter is missing which is critical for restoring, if a name is not known, or a shape
        does not fit
    """
    own = dict(model.named_parameters())
    unknown = sorted(name for name in params if name not in own)
    if unknown:
        raise UserError(f"the model has no parameter {unknown[0]!r}.\n  {nearest_hint(unknown[0], own)}")
    missing = sorted(name for name, p in own.items() if name not in params and not p.non_critical_for_restore)
    if missing and not allow_missing:
        raise UserError(f"{len(missing)} parameters are missing: {', '.join(map(repr, missing[:5]))}.")
    for name, value in params.items():
        shape = tuple(dim.size for dim in own[name].dims)
        if tuple(value.shape) != shape:
            raise UserError(f"parameter {name!r}: the value has the shape {tuple(value.shape)}, expected {own[name]}.")


def _to_numpy(value: Any) -> numpy.ndarray:
    if not isinstance(value, Tensor):
        return numpy.asarray(value)
    backend = value._raw_backend
    raw = value.raw_tensor
    if value.dtype == "bfloat16":  # numpy does not have it; float32 has all of its values
        raw = backend.cast_raw(raw, "float32")
    return numpy.asarray(backend.raw_to_numpy(raw))


__all__ = ["check_params_complete", "load_params", "load_torch_checkpoint", "save_params"]
