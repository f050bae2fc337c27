"""Which sequences of a step have more labels than `rf.ctc_loss` can align with their frames."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy

from returnn.frontend.loss import CtcOperands
from returnn.util.texts.counted import counted, some_of

HOW_TO_GO_ON = "Leave these sequences out, or let them not count: loss = rf.where(rf.is_finite(loss), loss, 0.0)."


def unaligned_text(losses: Iterable[CtcOperands], tags: Sequence[str], as_numpy: Callable[[Any], numpy.ndarray]) -> str:
    """
    :param losses: what CTC losses have compared, with values
    :param tags: of the sequences of the step
    :param as_numpy: makes an array of a raw tensor
    :return: names them, and says what to do; "" if there are none
    """
    for operands in losses:
        found = list(_unaligned(operands, as_numpy)) if operands.function == "ctc_loss" else []
        if found:
            _, labels, needed, frames = found[0]
            names = some_of([tags[i] for i, *_ in found], 3)
            blanks = (
                f", which need {counted(needed, 'frame')} with a blank between two of the same"
                if needed > labels
                else ""
            )
            return (
                "rf.ctc_loss is infinite where targets need more frames. "
                f"In {names}: {counted(labels, 'label')}{blanks}"
                f"; {counted(frames, 'frame')}.\n  {HOW_TO_GO_ON}"
            )
    return ""


def _unaligned(operands: CtcOperands, as_numpy: Callable[[Any], numpy.ndarray]) -> Iterator[tuple[int, int, int, int]]:
    """:return: index of the sequence, number of labels, of frames that these need, and of frames"""
    targets, own = operands.targets, operands.targets_spatial_dim
    batch = [dim for dim in targets.dims if dim != own]
    sizes = [operands.input_spatial_dim.get_size_tensor(), own.get_size_tensor()]
    if len(batch) != 1 or not batch[0].is_batch_dim() or any(list(size.dims) not in ([], batch) for size in sizes):
        return
    values = as_numpy(targets.copy_compatible_to_dims_raw([*batch, own]))
    frames, lengths = (numpy.broadcast_to(as_numpy(size.raw_tensor), values.shape[:1]) for size in sizes)
    for i, (labels, num_labels, num_frames) in enumerate(zip(values, lengths.tolist(), frames.tolist(), strict=True)):
        row = labels[:num_labels]
        num_repeats = int((row[1:] == row[:-1]).sum()) if operands.label_loop else 0
        if num_labels + num_repeats > num_frames:
            yield i, num_labels, num_labels + num_repeats, num_frames
