"""
Checkpoints inside of an epoch with PyTorch, "network.012.unfinished.pt": parameters, state of the optimizer, gradients
that were collected, and the position of the training.

See `returnn.engine.run.unfinished_epochs`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from returnn.engine.run.unfinished import UnfinishedEpoch
from returnn.engine.run.unfinished_parts import Buffer
from returnn.torch.checkpoint import delete_checkpoint, verify_checkpoint
from returnn.torch.checkpoint_file import load_checkpoint_file, write_checkpoint_file
from returnn.torch.engine.non_finite import non_finite_values
from returnn.util.errors import UserError
from returnn.util.files.checkpoint_files import (
    CheckpointError,
    unfinished_checkpoints_with_suffix,
    unfinished_parts_with_suffix,
)
from returnn.util.texts.counted import are, counted

_SUFFIX = ".pt"
_PARAMETER = "parameters/"


@dataclass(frozen=True)
class Snapshot:
    """All that training changes, at one moment."""

    parameters: Mapping[str, torch.Tensor]  # by name
    trained: frozenset[str]  # names of those that are trained
    step: int  # number of training steps so far
    updater: Mapping[str, Any]  # its state
    gradients: Mapping[str, torch.Tensor]  # collected ones, by name of the parameter
    num_collected: int  # from how many steps

    @classmethod
    def from_file(cls, unfinished: UnfinishedEpoch, *, device: str) -> Snapshot:
        """:raises CheckpointError: if it is damaged"""
        content = load_checkpoint_file(f"{unfinished.checkpoint}{_SUFFIX}", device=device)
        content.pop("position")
        if unfinished.part is not None:
            part = load_checkpoint_file(f"{unfinished.part}{_SUFFIX}", device=device)
            content["parameters"] = {**content["parameters"], **part.pop("parameters")}
            part.pop("position")
            content.update(part)
        return cls(**{**content, "trained": frozenset(content["trained"])})


class UnfinishedCheckpoints:
    """See `returnn.engine.run.unfinished_epochs.UnfinishedFormat`."""

    def begin_epoch(self) -> None:
        """Files do not depend on those of other epochs."""

    def existing(self, model: str) -> dict[int, str]:
        """:return: epoch -> name without suffix"""
        return unfinished_checkpoints_with_suffix(model, _SUFFIX)

    def write(self, checkpoint: str, snapshot: Snapshot, position: str) -> None:
        """:raises CheckpointError: if it cannot be written, or has values that are not finite"""
        wrong = non_finite_values(snapshot.parameters, trained=snapshot.trained)
        if wrong:
            name, count = next(iter(wrong.items()))
            values = f"{counted(count, 'value')} of {name!r} {are(count)}"
            raise CheckpointError(f"checkpoint {checkpoint!r} is not written: {values} not finite.")
        self._write_file(checkpoint, {**vars(snapshot), "trained": sorted(snapshot.trained), "position": position})

    def leaves(self, snapshot: Snapshot) -> Mapping[str, Any]:
        """:return: each parameter, and each other field of the snapshot"""
        fields = {name: value for name, value in vars(snapshot).items() if name not in ("parameters", "trained")}
        return {**fields, **{f"{_PARAMETER}{name}": value for name, value in snapshot.parameters.items()}}

    def bytes_of(self, leaf: Any) -> Iterator[Buffer]:
        """:return: other ones for another value"""
        if isinstance(leaf, torch.Tensor):
            yield leaf.contiguous().reshape(-1).view(torch.uint8).numpy()
        elif isinstance(leaf, Mapping):
            for key, value in leaf.items():
                yield repr(key).encode("utf8")
                yield from self.bytes_of(value)
        elif isinstance(leaf, (list, tuple)):
            for value in leaf:
                yield from self.bytes_of(value)
        else:
            yield repr(leaf).encode("utf8")

    def write_part(self, part: str, leaves: Mapping[str, Any], position: str) -> None:
        """:raises CheckpointError: if it cannot be written"""
        parameters = {
            name.removeprefix(_PARAMETER): value for name, value in leaves.items() if name.startswith(_PARAMETER)
        }
        fields = {name: value for name, value in leaves.items() if not name.startswith(_PARAMETER)}
        self._write_file(part, {**fields, "parameters": parameters, "position": position})

    def existing_parts(self, model: str) -> dict[str, int]:
        """:return: name without suffix -> epoch"""
        return unfinished_parts_with_suffix(model, _SUFFIX)

    @staticmethod
    def _write_file(checkpoint: str, content: dict[str, Any]) -> None:
        """:raises CheckpointError: if it cannot be written"""
        try:
            write_checkpoint_file(content, f"{checkpoint}{_SUFFIX}")
        except (OSError, UserError) as exc:
            raise CheckpointError(f"checkpoint {checkpoint!r} cannot be written: {exc}") from exc

    def read_position(self, checkpoint: str) -> str:
        """:raises CheckpointError: if something is missing or damaged"""
        verify_checkpoint(checkpoint)
        try:
            return str(load_checkpoint_file(f"{checkpoint}{_SUFFIX}", mmap=True).get("position"))
        except UserError as exc:
            raise CheckpointError(str(exc)) from exc

    def delete(self, checkpoint: str) -> None:
        """:raises CheckpointError: if it cannot be deleted"""
        delete_checkpoint(checkpoint)


def copied(value: Any) -> Any:
    """:return: nested dicts and lists, with copies of the tensors in the memory of the host"""
    if isinstance(value, torch.Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, Mapping):
        return {key: copied(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(copied(item) for item in value)
    return value
