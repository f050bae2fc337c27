"""
Parameters of a model of the frontend in a session, and in files.

A parameter `encoder.layers.0.weight` is the variable `encoder/layers/0/weight` in checkpoints of TensorFlow.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy
import tensorflow as tf

import returnn.frontend as rf
from returnn.frontend.checkpoint import check_params_complete, load_params, load_torch_checkpoint, save_params
from returnn.tf.checkpoint import read_values
from returnn.tf.util.parameters.assign import assign_values

_TORCH_SUFFIXES = (".pt", ".pth")


def get_model_params(model: rf.Module, session: tf.compat.v1.Session) -> dict[str, numpy.ndarray]:
    """
    :param model: module
    :param session: with its variables
    :return: their values, by path
    """
    return session.run({name: param.raw_tensor for name, param in model.named_parameters()})


def set_model_params(
    model: rf.Module,
    params: Mapping[str, numpy.ndarray],
    session: tf.compat.v1.Session,
    *,
    allow_missing: bool = False,
) -> None:
    """
    :param model: module
    :param params: values by path
    :param session: with its variables
    :param allow_missing: some may be missing
    :raises UserError: if the values do not fit
    """
    check_params_complete(model, params, allow_missing=allow_missing)
    variables = {name: param.raw_tensor for name, param in model.named_parameters()}
    assign_values(session, {variables[name].ref(): value for name, value in params.items()})


def save_checkpoint(
    model: rf.Module,
    session: tf.compat.v1.Session,
    filename: str,
    *,
    step: int | None = None,
    epoch: int | None = None,
) -> None:
    """
    Writes the parameters alone, into a file that all backends read (`rf.load_params`).

    :param model: module
    :param session: with its variables
    :param filename: usually ends with ".npz"
    :param step: number of training steps so far, for people
    :param epoch: number of the epoch, for people
    """
    save_params(get_model_params(model, session), filename, step=step, epoch=epoch)


def load_checkpoint(
    model: rf.Module, session: tf.compat.v1.Session, filename: str, *, allow_missing: bool = False
) -> None:
    """
    :param model: module
    :param session: with its variables
    :param filename: was written by `save_checkpoint`
    :param allow_missing: some may be missing
    :raises UserError: if the file does not fit
    """
    set_model_params(model, load_params(filename), session, allow_missing=allow_missing)


def load_torch_checkpoint_into_model(
    model: rf.Module, session: tf.compat.v1.Session, filename: str, *, allow_missing: bool = False
) -> None:
    """
    :param model: module
    :param session: with its variables
    :param filename: checkpoint of PyTorch, of the same model
    :param allow_missing: some may be missing
    :raises UserError: if the file does not fit
    """
    set_model_params(model, load_torch_checkpoint(filename), session, allow_missing=allow_missing)


def read_checkpoint(filename: str) -> dict[str, Any]:
    """
    :param filename: checkpoint of TensorFlow, without suffix; or a file of PyTorch, or one of `save_checkpoint`
    :return: values by name
    :raises UserError: if it is missing or damaged
    """
    for suffix in ("", *_TORCH_SUFFIXES):
        name = f"{filename}{suffix}"
        if name.endswith(_TORCH_SUFFIXES) and os.path.isfile(name):
            return dict(load_torch_checkpoint(name))
    if filename.endswith(".npz"):
        return dict(load_params(filename))
    return read_values(filename)


def variable_name(path: str) -> str:
    """:return: name of the variable of a parameter"""
    return path.replace(".", "/")


def values_by_path(values: Mapping[str, Any]) -> dict[str, Any]:
    """
    :param values: by names of variables, or by paths of parameters
    :return: by paths of parameters
    """
    return {name.replace("/", "."): value for name, value in values.items()}


__all__ = [
    "get_model_params",
    "load_checkpoint",
    "load_torch_checkpoint",
    "load_torch_checkpoint_into_model",
    "read_checkpoint",
    "save_checkpoint",
    "set_model_params",
    "values_by_path",
    "variable_name",
]
