"""What a search found, and how it is read from what it noted in each step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor

NEVER = -1e30  # log probability of what cannot be; finite, so that differences of it are numbers


@dataclass(frozen=True)
class SearchResult:
    """
    The hypotheses of each sequence, the best one first. If there are fewer than places in the beam, the last places
    have the score `NEVER`, and their labels mean nothing.
    """

    labels: Tensor  # {batch..., beam_dim, spatial_dim}
    scores: Tensor  # {batch..., beam_dim}: log probabilities
    ranking: Tensor  # {batch..., beam_dim}: what hypotheses are compared by, the scores with length normalization
    beam_dim: Dim
    spatial_dim: Dim  # with lengths {batch..., beam_dim}
    state: Any  # of the model, at the ends
    alignment: Tensor | None = None  # {batch..., beam_dim, frames}, with blank; of a search frame by frame
    ended: Tensor | None = None  # {batch..., beam_dim}, bool: False if the limit has cut it; of a search label by label

    def best(self) -> tuple[Tensor, Dim]:
        """:return: {batch..., spatial_dim}: labels of the best hypothesis of each sequence; a dim with its lengths"""
        first = rf.convert_to_tensor(0, dims=(), sparse_dim=self.beam_dim, dtype="int32", device=self.labels.device)
        return rf.nested.gather_nested((self.labels, self.spatial_dim), indices=first)


def follow_back(
    labels: Tensor, came_from: Tensor, *, spatial_dim: Dim, beam_dim: Dim, last: Tensor | None = None
) -> Tensor:
    """
    :param labels: {batch..., beam_dim, spatial_dim}: what was added in each step
    :param came_from: the same dims: which hypothesis of the step before it was added to
    :param spatial_dim: the steps, with lengths {batch...}
    :param beam_dim: of the hypotheses
    :param last: {batch..., beam_dim}: which hypotheses of the last step to follow. Default: all as they are
    :return: {batch..., beam_dim, spatial_dim}: all labels of the last hypotheses
    """

    def body(frame: Any, hypothesis: Tensor) -> tuple[Tensor, Tensor]:
        label = rf.gather(frame["labels"], indices=hypothesis, axis=beam_dim)
        return label, rf.gather(frame["came_from"], indices=hypothesis, axis=beam_dim)

    dims = [dim for dim in came_from.dims if dim != spatial_dim]
    if last is None:
        place = rf.range_over_dim(beam_dim, dtype="int32", device=came_from.device)
        last = rf.expand_dims(place, [dim for dim in dims if dim != beam_dim]).copy_transpose(dims)
    backwards = {
        "labels": rf.reverse_sequence(labels, axis=spatial_dim),
        "came_from": rf.reverse_sequence(came_from, axis=spatial_dim),
    }
    found, _, _ = rf.scan(spatial_dim=spatial_dim, initial=last, xs=backwards, body=body)
    return rf.reverse_sequence(found, axis=spatial_dim)


def first_frames(x: Tensor, in_dim: Dim, out_dim: Dim) -> Tensor:
    """:return: x, with the first frames of `in_dim` as `out_dim`, which is not longer"""
    frames = rf.range_over_dim(out_dim, device=x.device)
    return rf.gather(x, indices=frames, axis=in_dim, clip_to_valid=True)


def reorder(state: Any, came_from: Tensor) -> Any:
    """:return: the state of the hypotheses that were gone on with; what does not depend on them stays as it is"""
    return rf.nested.gather_nested(state, indices=came_from)
