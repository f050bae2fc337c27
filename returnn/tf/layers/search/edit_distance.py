"""Edit distances (Levenshtein 1966): of whole sequences, and frame by frame for what a search has found so far."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.values.ranges import frame_numbers
from returnn.util.errors import ConfigError
from returnn.util.not_specified import NotSpecified

_MANY = 2**30  # more than any distance


class EditDistanceLayer(LayerBase):
    """
    The least number of labels to insert, delete and substitute so that one sequence becomes another one.

    `a` [B, T], `b` [B, U], labels; output [B], int32. It is not divided by a length.
    """

    layer_class = "edit_distance"
    recurrent = True

    def __init__(
        self,
        a: LayerBase,
        b: LayerBase,
        a_spatial_dim: Dim | str | None = None,
        b_spatial_dim: Dim | str | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param a: [B, T], labels
        :param b: [B, U], labels
        :param a_spatial_dim: T, by description. Default: the time dim
        :param b_spatial_dim: U, the same
        """
        super().__init__(**kwargs)
        self.a = a
        self.b = b
        self.a_spatial_dim = a_spatial_dim
        self.b_spatial_dim = b_spatial_dim

    def compute(self) -> Tensor:
        """:return: [B], int32"""
        a, b = self.a.output, self.b.output
        a_dim = self.dim_of(a, "T" if self.a_spatial_dim is None else self.a_spatial_dim, option="a_spatial_dim")
        b_dim = self.dim_of(b, "T" if self.b_spatial_dim is None else self.b_spatial_dim, option="b_spatial_dim")
        return rf.edit_distance(a, a_dim, b, b_dim)

    def compute_inputs(self) -> list[Tensor]:
        """:return: nothing"""
        return []


class _PrefixDistances(LayerBase):
    """Base class: about the edit distances to all beginnings of the target."""

    recurrent = True

    def __init__(self, debug: bool = False, blank_idx: int | None = None, **kwargs: Any) -> None:
        """
        :param debug: print what it computes
        :param blank_idx: label of the source that stands for nothing
        """
        super().__init__(**kwargs)
        self.debug = debug
        self.blank_idx = blank_idx
        if self.target is None:
            raise ConfigError(f"{self.where()}: the option 'target' is required, such as 'layer:base:data:classes'.")

    def target_labels(self) -> tuple[Tensor, Dim]:
        """:return: [B, U], labels; U"""
        layer = self._target_layers.get(self.target)
        target = self.get_target_value() if layer is None else layer.output  # also inside of a loop, all of it
        assert target is not None
        if not target.sparse:
            raise ConfigError(f"{self.where()}: option 'target': {self.target!r} has no labels: {target}.")
        if not target.have_time_axis():
            raise ConfigError(f"{self.where()}: option 'target': {self.target!r} has no time dim: {target}.")
        return target, target.get_time_dim_tag()

    def debug_printed(self, x: Tensor) -> Tensor:
        """:return: x, printed when it is computed, with the option `debug`"""
        if self.debug and x.raw_tensor is not None:
            x.raw_tensor = tf.compat.v1.Print(x.raw_tensor, [self.get_absolute_name(), x.raw_tensor], summarize=100)
        return x


class EditDistanceTableLayer(_PrefixDistances):
    """
    Row t, entry u: edit distance between the first t + 1 labels of the source and the first u labels of the target.

    Source [..., T], labels; target [B, U]; output [..., T, U + 1], int32. Inside of a loop, the source is the label of
    this step, and the output [..., U + 1]; "prev:" in the first step is the row without any label.
    """

    layer_class = "edit_distance_table"

    def __init__(
        self,
        axis: Any = NotSpecified,
        debug: bool = False,
        blank_idx: int | None = None,
        out_dim: Dim | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param axis: T, by description. Default: the time dim; if there is none, the loop around
        :param debug: print the rows
        :param blank_idx: label of the source that stands for nothing: the row stays as it is
        :param out_dim: U + 1
        """
        super().__init__(debug=debug, blank_idx=blank_idx, **kwargs)
        self.axis = "T" if axis is NotSpecified else axis
        self._row_dim = out_dim
        if self._initial_output is None:
            self._initial_output = self._first_row

    def compute(self, source: Tensor) -> Tensor:
        """:return: [..., T, U + 1]"""
        axis, is_frame = self.sequence_dim_of(source, self.axis, option="axis")
        if is_frame:
            template = rf.expand_dims(self._first_row().copy_template(), source.dims)
            before = self.previous_state("row", template, initial=self._first_row)
            row = self._next_row(before, source)
            self.new_state("row", row)
            return self.debug_printed(row)
        source = rf.expand_to(source, [axis])
        return self.debug_printed(self._all_rows(source, axis))

    def _first_row(self) -> Tensor:
        """:return: [U + 1]: row without any label"""
        _, target_dim = self.target_labels()
        row_dim = target_dim + 1
        if self._row_dim is not None:
            if not self._row_dim.is_dim_known():
                self._row_dim.declare_same_as(row_dim)
            row_dim = self._row_dim
        return frame_numbers(row_dim)

    def _next_row(self, row: Tensor, label: Tensor) -> Tensor:
        """
        :param row: [..., U + 1]: before this label
        :param label: [...]
        :return: [..., U + 1]
        """
        target, target_dim = self.target_labels()
        (row_dim,) = self._first_row().dims
        prefix = frame_numbers(row_dim)
        last_label = rf.maximum(prefix - 1, 0)
        one_less = rf.gather(row, indices=last_label, axis=row_dim)
        expected = rf.gather(target, indices=last_label, axis=target_dim, clip_to_valid=True)
        is_other = rf.cast(rf.compare_bc(_numbers(expected), "!=", _numbers(label)), "int32")
        by_substitution = rf.combine_bc(one_less, "+", is_other)
        by_deletion = row + 1
        best = rf.where(prefix == 0, by_deletion, rf.minimum(by_deletion, by_substitution))
        new_row = self._with_insertions(best, row_dim)
        if self.blank_idx is None:
            return new_row
        return rf.where(_numbers(label) == self.blank_idx, row, new_row, allow_broadcast_all_sources=True)

    def _with_insertions(self, row: Tensor, row_dim: Dim) -> Tensor:
        """:return: [..., U + 1]: the least of `row[k] + u - k` for all k <= u"""
        shorter = self.new_dim_like("shorter", row_dim)
        prefix = frame_numbers(row_dim)
        from_shorter, _ = rf.replace_dim(rf.combine_bc(row, "-", prefix), in_dim=row_dim, out_dim=shorter)
        is_shorter = rf.compare_bc(frame_numbers(shorter), "<=", prefix)
        from_shorter = rf.where(is_shorter, from_shorter, _MANY, allow_broadcast_all_sources=True)
        return rf.combine_bc(rf.reduce_min(from_shorter, axis=shorter, use_mask=False), "+", prefix)

    def _all_rows(self, source: Tensor, axis: Dim) -> Tensor:
        """:return: [axis, ..., U + 1], for all frames at once"""
        first = rf.expand_dims(self._first_row(), [dim for dim in source.dims if dim != axis])
        rows = first.copy_template()._insert_dim(axis, 0)
        if source.raw_tensor is None:
            return rows
        frame = source.copy_template_excluding_axis(source.get_axis_from_description(axis))

        def step(row: Any, label: Any) -> Any:
            row, label = (_with_value(template, raw) for template, raw in ((first, row), (frame, label)))
            return self._next_row(row, label).copy_compatible_to_dims_raw(first.dims)

        frames = source.copy_compatible_to_dims_raw([axis, *frame.dims])
        rows.raw_tensor = tf.scan(step, frames, initializer=first.raw_tensor)
        return rows


class OptimalCompletionsLayer(_PrefixDistances):
    """
    For each label, the least edit distance to a beginning of the target, if it comes next (Sabour et al. 2019).

    Source [..., U + 1], a row of `EditDistanceTableLayer`, usually of the step before; target [B, U]; output
    [..., labels], int32. Labels with the least value are those that a best transcription goes on with.
    """

    layer_class = "optimal_completions"

    def __init__(self, debug: bool = False, blank_idx: int | None = None, **kwargs: Any) -> None:
        """
        :param debug: print what it computes
        :param blank_idx: label that stands for nothing: with it, the distance stays what it is
        """
        super().__init__(debug=debug, blank_idx=blank_idx, **kwargs)

    def compute(self, source: Tensor) -> Tensor:
        """:return: [..., labels]"""
        target, target_dim = self.target_labels()
        row_dim = next((dim for dim in source.dims if dim == target_dim + 1), None) or self.dim_of(source, "T")
        labels = self.output_feature_dim(max(target.sparse_dim.dimension, (self.blank_idx or 0) + 1))
        least = rf.reduce_min(source, axis=row_dim)
        position = frame_numbers(target_dim)
        of_prefix = rf.gather(source, indices=position, axis=row_dim)
        matching = rf.scatter(
            of_prefix, indices=_numbers(target), indices_dim=target_dim, mode="min", fill_value=_MANY, out_dim=labels
        )
        out = rf.combine_bc(matching, "minimum", least + 1)
        if self.blank_idx is not None:
            out = rf.where(frame_numbers(labels) == self.blank_idx, least, out, allow_broadcast_all_sources=True)
        out = out.copy_with_roles(feature_dim=labels)
        return self.debug_printed(out)


def _numbers(labels: Tensor) -> Tensor:
    return labels.copy_with_roles(sparse_dim=None)


def _with_value(template: Tensor, raw: Any) -> Tensor:
    out = template.copy_template()
    out.raw_tensor = raw
    return out
