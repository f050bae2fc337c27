"""Checkpoint files of PyTorch: a state dict, or a dict which has one as "model"."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from returnn.util.errors import UserError
from returnn.util.files.atomic_file import open_atomic
from returnn.util.files.near_files import hint_for_missing_file

_MODEL = "model"


def load_checkpoint_file(filename: str, *, device: str = "cpu", mmap: bool = False) -> dict[str, Any]:
    """
    :param filename: of a checkpoint, also without its suffix ".pt"; code in it is not run
    :param device: where the tensors go
    :param mmap: leave them in the file until they are needed
    :raises UserError: if it cannot be read
    """
    if not os.path.exists(filename) and os.path.exists(f"{filename}.pt"):
        filename = f"{filename}.pt"
    if not os.path.exists(filename):
        raise UserError(f"checkpoint {filename!r} does not exist.{hint_for_missing_file(filename)}")
    try:
        content = torch.load(filename, map_location=device, weights_only=True, mmap=mmap)
    except (RuntimeError, pickle.UnpicklingError, EOFError, ValueError) as exc:
        reason = str(exc).split("\n")[0][:200]
        raise UserError(f"checkpoint {filename!r}: cannot be read: {reason}") from exc
    if not isinstance(content, Mapping):
        raise UserError(f"checkpoint {filename!r}: expected a dict, got a {type(content).__name__}.")
    return dict(content)


def model_of(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """:return: the parameters and buffers by name"""
    return content.get(_MODEL, content)


def iter_tensors(content: Any, name: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """:return: all tensors in nested dicts and lists, by their path"""
    if isinstance(content, torch.Tensor):
        yield name, content
        return
    items: Any = ()
    if isinstance(content, Mapping):
        items = content.items()
    elif isinstance(content, (list, tuple)):
        items = enumerate(content)
    for key, value in items:
        yield from iter_tensors(value, f"{name}.{key}" if name else str(key))


def average_checkpoint_files(filenames: Sequence[str]) -> dict[str, Any]:
    """
    :param filenames: of checkpoints of the same model
    :return: like the last one, with the mean of all parameters; what counts is taken from the last one
    :raises UserError: if they are of different models
    """
    last = load_checkpoint_file(filenames[-1])
    totals = {name: tensor.double() for name, tensor in model_of(last).items() if torch.is_floating_point(tensor)}
    for filename in filenames[:-1]:
        model = model_of(load_checkpoint_file(filename))
        for name, total in totals.items():
            if name not in model or model[name].shape != total.shape:
                found = f"has the shape {tuple(model[name].shape)}" if name in model else "is missing"
                raise UserError(
                    f"checkpoints {filenames[-1]!r} and {filename!r} are of different models.\n"
                    f"  {name!r} has the shape {tuple(total.shape)} in the first; in the second, it {found}."
                )
            totals[name] = total + model[name].double()
    means = {name: (total / len(filenames)).to(model_of(last)[name].dtype) for name, total in totals.items()}
    averaged = {**model_of(last), **means}
    return {**last, _MODEL: averaged} if _MODEL in last else averaged


def write_checkpoint_file(content: Mapping[str, Any], filename: str) -> None:
    """
    :param content: of the checkpoint
    :param filename: is complete or as it was before
    :raises UserError: if it cannot be written
    """
    with open_atomic(filename, "wb") as file:
        try:
            torch.save(dict(content), file)
        except RuntimeError as exc:
            # A file that cannot be written has an end that PyTorch does not expect, and it tells only that.
            if isinstance(exc.__context__, OSError):
                raise exc.__context__ from None
            raise
