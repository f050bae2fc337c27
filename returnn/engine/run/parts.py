"""Scores of a step that was done in parts, because memory was not enough for all of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def sum_of_values(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """
    :param parts: values of the steps of all parts: sums, and `norm:NAME`, 1 / number of frames
    :return: those of the whole batch
    """
    total: dict[str, float] = {}
    for key in parts[0]:
        numbers = [part[key] for part in parts]
        if key.startswith("norm:"):
            num_frames = sum(1 / number for number in numbers if number)
            total[key] = 1 / num_frames if num_frames else 0.0
        else:
            total[key] = sum(numbers)
    return total
