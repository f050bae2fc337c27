"""
Checkpoints of trainings with PyTorch.

The checkpoint `net.012` of epoch 12 is `net.012.pt`: a dict with the parameters by name, "model", and "epoch", "step",
"effective_learning_rate" and "returnn_version"; and `net.012.opt.pt`, the state of the optimizer. The first one is
written last: the checkpoint exists if it does. With `torch_checkpoint_format = "safetensors"`, the parameters are in
`net.012.safetensors` instead, and the rest is in its metadata, as texts.
"""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

import torch

from returnn.torch.checkpoint_file import load_checkpoint_file, write_checkpoint_file
from returnn.util.errors import UserError
from returnn.util.files.atomic_file import write_atomic
from returnn.util.files.checkpoint_files import (
    CheckpointError,
    NewestIntact,
    UnreadableError,
    check_files_readable,
    delete_files,
    entries_of_folder,
    existing_checkpoints_with_suffix,
    missing_checkpoint_error,
    newest_intact,
)
from returnn.util.files.checkpoint_names import get_checkpoint_filepattern
from returnn.util.python.optional_import import import_optional

MODEL_SUFFIXES = (".pt", ".safetensors")
OPTIMIZER_SUFFIX = ".opt.pt"


def existing_checkpoints(
    model: str, *, is_pretrain_epoch: Callable[[int], bool] = lambda epoch: False
) -> dict[int, str]:
    """
    :param model: option `model`
    :param is_pretrain_epoch: if an epoch has both kinds of checkpoint, this says which one counts
    :return: epoch -> name without suffix, in the order of the epochs
    """
    found: dict[int, str] = {}
    for suffix in MODEL_SUFFIXES:
        found.update(existing_checkpoints_with_suffix(model, suffix, is_pretrain_epoch=is_pretrain_epoch))
    return dict(sorted(found.items()))


def checkpoint_files(checkpoint: str) -> list[str]:
    """:return: all files of this checkpoint, and of no other; those by which it exists come first"""
    names = [f"{checkpoint}{suffix}" for suffix in (*MODEL_SUFFIXES, OPTIMIZER_SUFFIX)]
    return [name for name in names if os.path.exists(name)]


def model_file(checkpoint: str) -> str:
    """
    :param checkpoint: name without suffix, or the file itself
    :return: the file with the parameters
    :raises CheckpointError: if there is none
    """
    if os.path.isfile(checkpoint) and not checkpoint.endswith((".index", ".npz")):
        return checkpoint
    for suffix in MODEL_SUFFIXES:
        if os.path.exists(f"{checkpoint}{suffix}"):
            return f"{checkpoint}{suffix}"
    raise _missing(checkpoint)


def delete_checkpoint(checkpoint: str) -> int:
    """
    :param checkpoint: name without suffix
    :return: bytes that are free now
    :raises CheckpointError: if there is none, or if it cannot be deleted
    """
    return delete_files(checkpoint, checkpoint_files(checkpoint))


def newest_intact_checkpoint(checkpoints: Mapping[int, str]) -> NewestIntact:
    """
    :param checkpoints: epoch -> name without suffix
    :raises UnreadableError: if it is not known whether a newer one is intact
    """
    return newest_intact(checkpoints, verify_checkpoint)


def verify_checkpoint(checkpoint: str) -> None:
    """
    Reads everything, with all checksums that there are.

    :raises CheckpointError: if something is missing or damaged
    :raises UnreadableError: if that is not known
    """
    model_file(checkpoint)
    check_files_readable(checkpoint, checkpoint_files(checkpoint))
    for filename in checkpoint_files(checkpoint):
        if filename.endswith(".pt"):
            try:
                with zipfile.ZipFile(filename) as archive:
                    damaged = archive.testzip()
            except zipfile.BadZipFile as exc:
                raise CheckpointError(f"checkpoint {checkpoint!r}: the file {filename!r} is damaged.") from exc
            if damaged:
                raise CheckpointError(f"checkpoint {checkpoint!r}: the file {filename!r} is damaged (checksum).")
        else:
            load_model_file(checkpoint)


def finish_interrupted_saves(model: str) -> list[str]:
    """
    Deletes what is left of checkpoints that were being written. For the start of a training, when nobody else saves.

    :param model: option `model`
    :return: a sentence for each of them
    :raises CheckpointError: if a file cannot be deleted
    """
    folder, name = os.path.split(model)
    suffixes = "|".join(map(re.escape, (*MODEL_SUFFIXES, OPTIMIZER_SUFFIX)))
    rest = re.compile(rf"\.{re.escape(name)}\.\d{{3,}}[\w.]*({suffixes})\.\w+\.tmp")
    optimizer = re.compile(rf"({re.escape(name)}\.\d{{3,}}){re.escape(OPTIMIZER_SUFFIX)}")
    texts = []
    entries = entries_of_folder(folder)
    for entry in sorted(entries):
        match = optimizer.fullmatch(entry)
        is_alone = match is not None and not any(f"{match[1]}{suffix}" in entries for suffix in MODEL_SUFFIXES)
        if not is_alone and not rest.fullmatch(entry):
            continue
        path = os.path.join(folder, entry)
        try:
            os.remove(path)
        except OSError as exc:
            raise CheckpointError(f"interrupted save of {model!r}: {exc.strerror}: {exc.filename!r}.") from exc
        texts.append(f"Deleted {path!r}, of a checkpoint that was being written when the process ended.")
    return texts


# Content.


def save_checkpoint(
    checkpoint: str,
    *,
    parameters: Mapping[str, torch.Tensor],
    info: Mapping[str, Any],
    optimizer: Mapping[str, Any] | None,
    file_format: str = "pt",
) -> None:
    """
    :param checkpoint: name without suffix. What is there under that name is replaced
    :param parameters: by name
    :param info: epoch, step and the like
    :param optimizer: its state, with the key "optimizer" and others; None: there is none
    :param file_format: "pt" or "safetensors"
    :raises CheckpointError: if it cannot be written; what was there before stays
    """
    try:
        os.makedirs(os.path.dirname(checkpoint) or ".", exist_ok=True)
        if optimizer is not None:
            write_checkpoint_file({**optimizer, **info}, f"{checkpoint}{OPTIMIZER_SUFFIX}")
        values = {name: value.detach().cpu() for name, value in parameters.items()}
        if file_format == "safetensors":
            safetensors = import_optional("safetensors.torch", needed_for="option 'torch_checkpoint_format'")
            values = {name: value.clone().contiguous() for name, value in values.items()}
            metadata = {key: str(value) for key, value in info.items()}
            write_atomic(f"{checkpoint}.safetensors", safetensors.save(values, metadata=metadata))
        else:
            write_checkpoint_file({"model": values, **info}, f"{checkpoint}.pt")
    except (OSError, UserError) as exc:
        if isinstance(exc, UserError) and "cannot write" not in str(exc):
            raise
        raise CheckpointError(
            f"checkpoint {checkpoint!r} cannot be written: {str(exc).rstrip('.')}.\n"
            "  Checkpoints that are there are as they were."
        ) from exc


def load_model_file(checkpoint: str, *, device: str = "cpu") -> dict[str, Any]:
    """
    :param checkpoint: name without suffix, or a file, also of somebody else
    :param device: where the tensors go
    :return: the whole content; the parameters, by name, are in "model", or are all there is
    :raises CheckpointError: if it is missing or damaged
    """
    filename = model_file(checkpoint)
    if not filename.endswith(".safetensors"):
        try:
            return load_checkpoint_file(filename, device=device)
        except UserError as exc:
            raise CheckpointError(str(exc)) from exc
        except OSError as exc:
            raise UnreadableError(f"checkpoint {checkpoint!r}", exc) from exc
    safetensors = import_optional("safetensors", needed_for=f"reading {filename!r}")
    try:
        with safetensors.safe_open(filename, framework="pt", device=device) as file:
            info = {key: _number(value) for key, value in (file.metadata() or {}).items()}
            return {"model": {name: file.get_tensor(name) for name in file.keys()}, **info}  # noqa: SIM118 (no dict)
    except safetensors.SafetensorError as exc:
        raise CheckpointError(f"checkpoint {checkpoint!r}: the file {filename!r} is damaged: {exc}.") from exc


def load_optimizer_file(checkpoint: str, *, device: str = "cpu") -> dict[str, Any] | None:
    """:return: state of the optimizer, with the key "optimizer" and others; None if the checkpoint has none"""
    filename = f"{get_checkpoint_filepattern(checkpoint)}{OPTIMIZER_SUFFIX}"
    if not os.path.exists(filename):
        return None
    try:
        return load_checkpoint_file(filename, device=device)
    except UserError as exc:
        raise CheckpointError(str(exc)) from exc


def delete_optimizer_files(checkpoints: Mapping[int, str], *, keep_last_n: int) -> None:
    """Deletes the states of the optimizer of all but the newest ones. :param checkpoints: epoch -> name"""
    for epoch in sorted(checkpoints)[: -keep_last_n or None]:
        filename = f"{checkpoints[epoch]}{OPTIMIZER_SUFFIX}"
        if os.path.exists(filename):
            os.remove(filename)


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _missing(checkpoint: str) -> CheckpointError:
    names = entries_of_folder(os.path.dirname(checkpoint))
    have = [entry for entry in names if entry.endswith(MODEL_SUFFIXES) and not entry.endswith(OPTIMIZER_SUFFIX)]
    return missing_checkpoint_error(checkpoint, have, backend="PyTorch", suffixes=MODEL_SUFFIXES)
