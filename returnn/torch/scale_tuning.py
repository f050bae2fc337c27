"""
Scales of a log-linear combination: which ones give the fewest errors, if the best hypothesis of each list is taken.

A hypothesis h has the score `sum_i scale[i] * score[i, h]`. All points of a grid are tried, then a finer grid
around the best one, and so on. With too many scales for a grid, the points are random ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy
import torch

MAX_GRID_POINTS = 200_000
_RANDOM_POINTS = 4_000


@dataclass(frozen=True)
class NBestLists:
    """Hypotheses of all sequences, padded."""

    scores: torch.Tensor  # [scores, seqs, hyps]
    errors: torch.Tensor  # [seqs, hyps], float64
    is_hyp: torch.Tensor  # [seqs, hyps], False where it is padding

    def to(self, device: str) -> NBestLists:
        """:return: the same, there"""
        return NBestLists(self.scores.to(device), self.errors.to(device), self.is_hyp.to(device))

    def errors_of(self, scales: torch.Tensor, *, batch_size: int) -> torch.Tensor:
        """
        :param scales: [points, scores]
        :param batch_size: points at once
        :return: [points], errors of the best hypotheses of all sequences
        """
        return torch.cat([self._errors_of(part) for part in scales.split(batch_size)])

    def _errors_of(self, scales: torch.Tensor) -> torch.Tensor:
        total = torch.einsum("pn,nsh->psh", scales, self.scores)
        best = total.masked_fill(~self.is_hyp, -torch.inf).argmax(dim=-1)  # [points, seqs]
        return self.errors[torch.arange(best.shape[1], device=best.device), best].sum(dim=-1)


@dataclass(frozen=True)
class ScaleSpace:
    """Which scales are tried."""

    lowest: Sequence[float]  # of each scale; one that is fixed has the same value as highest
    highest: Sequence[float]
    relative_to: Sequence[int | None]  # index of another scale that it is multiplied by
    signs: Sequence[float]  # 1 or -1

    @property
    def free(self) -> list[int]:
        """Indices of those that are not fixed."""
        return [i for i, (low, high) in enumerate(zip(self.lowest, self.highest, strict=True)) if low < high]

    def real_scales(self, points: torch.Tensor) -> torch.Tensor:
        """
        :param points: [points, scores]
        :return: [points, scores], what the scores are multiplied by
        """
        columns: list[torch.Tensor | None] = [None] * len(self.relative_to)

        def column(i: int) -> torch.Tensor:
            base = self.relative_to[i]
            if columns[i] is None:
                columns[i] = points[:, i] if base is None else points[:, i] * column(base)
            return columns[i]

        signs = torch.tensor(list(self.signs), dtype=points.dtype, device=points.device)
        return torch.stack([column(i) for i in range(len(columns))], dim=1) * signs


@dataclass(frozen=True)
class Tuned:
    """The best scales."""

    scales: list[float]  # as they were tried
    real_scales: list[float]  # with sign, and multiplied by those that they are relative to
    errors: float
    grid: numpy.ndarray  # [points, scores], what was tried first
    grid_errors: numpy.ndarray  # [points]


def tune_scales(
    lists: NBestLists, space: ScaleSpace, *, mode: str, num_steps: int, num_iterations: int, batch_size: int
) -> Tuned:
    """
    :param lists: of hypotheses
    :param space: of scales
    :param mode: "grid" or "random"; "auto": a grid, unless there are too many scales
    :param num_steps: values of each scale in a grid, from 2
    :param num_iterations: each goes around the best point of the one before
    :param batch_size: points at once
    """
    low, high = (torch.tensor(list(x), dtype=torch.float64) for x in (space.lowest, space.highest))
    start, end = low, high
    if mode == "auto":
        mode = "grid" if num_steps ** len(space.free) <= MAX_GRID_POINTS else "random"
    rng = torch.Generator().manual_seed(1)
    best: tuple[float, torch.Tensor] | None = None
    first: tuple[torch.Tensor, torch.Tensor] | None = None
    for _ in range(max(num_iterations, 1)):
        points = _grid(start, end, num_steps) if mode == "grid" else _random(start, end, rng)
        device = lists.scores.device
        errors = lists.errors_of(space.real_scales(points.to(device)), batch_size=batch_size).cpu()
        found = _middle_of_best(points, errors)
        first = first or (points, errors)
        if best is None or float(errors.min()) < best[0]:
            best = float(errors.min()), points[found]
        step = (end - start) / (num_steps - 1 if mode == "grid" else 4)
        start, end = torch.maximum(best[1] - step, low), torch.minimum(best[1] + step, high)
    real = space.real_scales(best[1][None])[0]
    return Tuned(best[1].tolist(), real.tolist(), best[0], first[0].numpy(), first[1].numpy())


def _middle_of_best(points: torch.Tensor, errors: torch.Tensor) -> int:
    """:return: of all points with the fewest errors, the one that is nearest to their mean: it is the safest"""
    (best,) = torch.where(errors == errors.min())
    distances = ((points[best] - points[best].mean(dim=0)) ** 2).sum(dim=1)
    return int(best[distances.argmin()])


def _grid(low: torch.Tensor, high: torch.Tensor, num_steps: int) -> torch.Tensor:
    """:return: [points, scores]"""
    pairs = zip(low, high, strict=True)
    axes = [torch.linspace(float(a), float(b), num_steps if a < b else 1, dtype=torch.float64) for a, b in pairs]
    return torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).reshape(-1, len(axes))


def _random(low: torch.Tensor, high: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    """:return: [points, scores]"""
    return low + torch.rand((_RANDOM_POINTS, len(low)), generator=rng, dtype=torch.float64) * (high - low)
