"""What hypotheses can go on with: the labels of one source, or combinations of labels of several sources."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.search.choosing_layer import ChoosingLayer
from returnn.util.errors import ConfigError
from returnn.util.texts.counted import there_are


@dataclass(frozen=True)
class Candidates:
    """
    The continuations to choose from.

    Of one source, these are its labels. Of several, they are combinations of the best labels of each; where the target
    has to be among them, it is the last one.
    """

    dim: Dim
    scores: Tensor  # {..., dim}, log space
    labels: tuple[Tensor, ...] = ()  # of each source: {..., dim}; none: the candidate is the label
    targets: tuple[Tensor, ...] = ()  # of each source, as far as they are needed

    def chosen(self, index: Tensor, src_beams: Tensor) -> list[Tensor]:
        """
        :param index: [B, beam] -> dim
        :param src_beams: [B, beam] -> the beam before
        :return: the label of each source, [B, beam]
        """
        if not self.labels:
            return [index]
        result = []
        for labels in self.labels:
            if src_beams.sparse_dim in labels.dims:
                labels = rf.gather(labels, indices=src_beams)
            result.append(rf.gather(labels, indices=index, axis=self.dim))
        return result

    def target(self) -> Tensor:
        """:return: [...] -> dim: the target among the candidates"""
        if not self.labels:
            index = self.targets[0].copy()
        else:
            assert self.dim.size is not None
            index = rf.convert_to_tensor(self.dim.size - 1, dims=(), dtype="int32")
        return index.copy_with_roles(sparse_dim=self.dim)

    def is_target(self) -> Tensor:
        """:return: {..., dim}, bool"""
        labels = self.labels or (rf.range_over_dim(self.dim),)
        same = [rf.compare_bc(a, "==", b) for a, b in zip(labels, self.targets, strict=True)]
        return reduce(lambda a, b: rf.combine_bc(a, "logical_and", b), same)

    def without_appended_target(self, scores: Tensor) -> Tensor:
        """:return: scores {..., dim}, where the target cannot be chosen if it was appended"""
        if not self.labels:
            return scores
        is_last = rf.compare(rf.range_over_dim(self.dim), "==", self.target())
        return rf.where(is_last, float("-inf"), scores)


def candidates_of(layer: ChoosingLayer, scores: Sequence[Tensor], targets: Sequence[Tensor]) -> Candidates:
    """
    :param layer: the choice
    :param scores: of each source: {..., labels}, log space
    :param targets: of each source, if they have to be among the candidates; otherwise none
    """
    if len(scores) == 1:
        assert scores[0].feature_dim is not None
        return Candidates(scores[0].feature_dim, scores[0], targets=tuple(targets))
    pruned = [_pruned(layer, i, x) for i, x in enumerate(scores)]
    dims = [dim for _, _, dim in pruned]
    out_dim = layer.new_dim("combinations", math.prod(dim.size or 0 for dim in dims), auto_generated=False)
    total = _merged(reduce(lambda a, b: rf.combine_bc(a, "+", b), [best for best, _, _ in pruned]), dims, out_dim)
    labels = [_merged(labels, dims, out_dim) for _, labels, _ in pruned]
    if not targets:
        return Candidates(out_dim, total, tuple(labels))
    of_target = [rf.gather(x, indices=target, axis=x.feature_dim) for x, target in zip(scores, targets, strict=True)]
    last = layer.new_dim("target", 1, auto_generated=False)
    with_last = layer.new_dim("combinations and target", (out_dim.size or 0) + 1, auto_generated=False)
    total = _appended(total, reduce(lambda a, b: rf.combine_bc(a, "+", b), of_target), out_dim, last, with_last)
    labels = [_appended(x, t, out_dim, last, with_last) for x, t in zip(labels, targets, strict=True)]
    return Candidates(with_last, total, tuple(labels), tuple(targets))


def _pruned(layer: ChoosingLayer, index: int, scores: Tensor) -> tuple[Tensor, Tensor, Dim]:
    """:return: the best scores, their labels, and the dim of these"""
    label_dim = scores.feature_dim
    assert label_dim is not None
    assert label_dim.size is not None
    size = layer.beam_size if layer.source_beam_sizes is None else layer.source_beam_sizes[index]
    assert size is not None
    kept = layer.new_dim(f"best of source {index}", min(size, label_dim.size), auto_generated=False)
    best, labels, _ = rf.top_k(scores, axis=label_dim, k=kept.size, k_dim=kept)
    assert isinstance(labels, Tensor)
    return best, labels, kept


def _merged(x: Tensor, dims: Sequence[Dim], out_dim: Dim) -> Tensor:
    sparse_dim = x.sparse_dim
    x = rf.expand_to(x, dims)
    out, _ = rf.merge_dims(x, dims=dims, out_dim=out_dim)
    return out.copy_with_roles(sparse_dim=sparse_dim)


def _appended(x: Tensor, value: Tensor, dim: Dim, last: Dim, out_dim: Dim) -> Tensor:
    """:return: {..., out_dim}: x {..., dim}, and behind it the value {...}"""
    sparse_dim = x.sparse_dim
    x = rf.expand_to(x, value.dims)
    value = rf.expand_to(rf.cast(value, x.dtype), [*(d for d in x.dims if d != dim), last])
    out, _ = rf.concat((x, dim), (value, last), out_dim=out_dim)
    return out.copy_with_roles(sparse_dim=sparse_dim)


def check_sources(layer: ChoosingLayer) -> None:
    """:raises ConfigError: if sources, targets and `source_beam_sizes` do not belong together"""
    count = len(layer.sources)
    if layer.targets is not None and len(layer.targets) != count:
        raise ConfigError(
            f"{layer.where()}: option 'target': {layer.targets!r}, but {there_are(count, 'source')}.\n"
            f"  'from' has {[source.name for source in layer.sources]!r}; each needs a target."
        )
    if layer.source_beam_sizes is not None and len(layer.source_beam_sizes) != count:
        raise ConfigError(
            f"{layer.where()}: option 'source_beam_sizes': {list(layer.source_beam_sizes)!r}, "
            f"but {there_are(count, 'source')}."
        )
    if layer.source_beam_sizes is not None and min(layer.source_beam_sizes, default=1) < 1:
        raise ConfigError(
            f"{layer.where()}: option 'source_beam_sizes': each has to be at least 1, not {layer.source_beam_sizes!r}."
        )
