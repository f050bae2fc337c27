"""
What is done when memory ends in a training step: the step is done in parts, where that gives the same result, and else
there is an error which names the largest outputs.

A step in parts sums up the gradients of parts of the sequences. That is the gradient of the whole batch, if each loss
is known for each sequence, and no module takes statistics over the batch. Dropout leaves out other entries.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

import returnn.frontend as rf
from returnn.engine.frontend.batch_arrays import ArrayBatch
from returnn.tensor import Tensor, batch_dim
from returnn.torch.engine.module_outputs import hooks_on_outputs
from returnn.torch.util.device import is_out_of_memory
from returnn.util.errors import UserError
from returnn.util.python.nested import iter_nested
from returnn.util.texts.human_readable import human_bytes_size

_NUM_SHOWN = 4
_STATISTICS_OF_BATCH = (rf.BatchNorm, torch.nn.modules.batchnorm._BatchNorm)


def reason_against_parts(model: Any, *, num_processes: int, has_collected: bool) -> str | None:
    """
    :param model: module
    :param num_processes: which train together
    :param has_collected: whether there are gradients of steps before
    :return: why a step cannot be done in parts, for people; None if it can
    """
    if num_processes > 1:
        return "the other workers wait for the whole step"
    if has_collected:
        return "the gradients of steps before would be lost"
    for path, module in model.named_modules():
        if isinstance(module, _STATISTICS_OF_BATCH):
            return f"{path!r} ({type(module).__name__}) takes statistics over the batch"
    return None


def reason_of_losses(losses: Mapping[str, rf.Loss]) -> str | None:
    """:return: why losses of parts do not add up to those of the batch; None if they do"""
    for name, loss in losses.items():
        if batch_dim not in loss.loss.dims:
            return f"the loss {name!r} is not known for each sequence"
    return None


def in_parts(batch: ArrayBatch, num_parts: int) -> list[ArrayBatch]:
    """:return: parts of the batch; as many, if it has as many sequences"""
    parts = [batch]
    while len(parts) < num_parts:
        halves = [half for part in parts for half in part.split()]
        if len(halves) == len(parts):
            break
        parts = halves
    return parts


def norm_counts(losses: Mapping[str, rf.Loss]) -> dict[str, float]:
    """:return: by what the means of normalized losses divide"""
    counts = {name: loss.get_inv_norm_factor() for name, loss in losses.items() if loss.use_normalized_loss}
    return {name: float(n.raw_tensor) if isinstance(n, Tensor) else float(n) for name, n in counts.items()}


def factors_of_parts(counts: Sequence[Mapping[str, float]]) -> list[dict[str, float]]:
    """
    :param counts: `norm_counts` of each part
    :return: what to multiply the losses of each part by, so that they add up to the means over all
    """
    totals = {name: sum(part[name] for part in counts) or 1.0 for name in counts[0]}
    return [{name: count / totals[name] for name, count in part.items()} for part in counts]


def out_of_memory_error(where: str, cause: str, reason: str, outputs: Iterable[Output]) -> UserError:
    """
    :param where: step and sequences
    :param cause: what PyTorch says
    :param reason: why the step was not done in parts
    :param outputs: of the modules
    :return: at most five lines
    """
    largest = sorted(outputs, key=lambda output: -output.num_bytes)
    total = human_bytes_size(sum(output.num_bytes for output in largest))
    shown = "; ".join(map(str, largest[:_NUM_SHOWN]))
    return UserError(
        f"{where}: memory is not enough: {cause}\n"
        f"  Not split into parts, as {reason}.\n"
        f"  Largest outputs of modules: {shown or 'none'}. All: {total}.\n"
        "  Set 'batch_size' to \"auto\" or less; 'max_seq_length' leaves out long sequences,"
        " 'rf.gradient_checkpoint_scope' keeps less."
    )


@dataclass(frozen=True)
class Output:
    """What a module returns."""

    name: str
    text: str
    num_bytes: int

    def __str__(self) -> str:
        return f"{self.name} {self.text} {human_bytes_size(self.num_bytes)}"


def outputs_of_modules(model: Any, run: Callable[[], Any]) -> list[Output]:
    """
    :param model: module
    :param run: computes the step once more, until memory ends
    :return: outputs of modules that have no others inside
    """
    found: list[Output] = []

    def note(path: str, module: Any, result: Any) -> None:
        if any(True for _ in module.children()):
            return
        for value in iter_nested(result):
            raw = value.raw_tensor if isinstance(value, Tensor) else value
            if isinstance(raw, torch.Tensor):
                dims = value.dims if isinstance(value, Tensor) else None
                found.append(Output(repr(path), _shape(raw, dims), raw.numel() * raw.element_size()))

    with torch.no_grad(), contextlib.suppress(_MemoryEnds), hooks_on_outputs(model, note):
        try:
            run()
        except Exception as exc:
            if not is_out_of_memory(exc):
                raise
            raise _MemoryEnds from exc
    return found


class _MemoryEnds(Exception):
    pass


def _shape(raw: torch.Tensor, dims: Sequence[Any] | None) -> str:
    if dims is None:
        return f"{list(raw.shape)}"
    return f"[{', '.join(f'{dim.name or dim.kind} {size}' for dim, size in zip(dims, raw.shape, strict=True))}]"
