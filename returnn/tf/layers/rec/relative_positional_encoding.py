"""Encodings of the distance between two frames (Shaw et al. 2018)."""

from __future__ import annotations

from typing import Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tensor.dim import single_step_dim
from returnn.tf.layers.core.no_sources import DimsOfSourceLayer
from returnn.tf.layers.core.sources import _ConcatInputLayer
from returnn.tf.layers.loop.history import frames_before
from returnn.tf.layers.rec.positional_encoding import sinusoids
from returnn.tf.layers.values.ranges import frame_numbers
from returnn.util.errors import ConfigError
from returnn.util.not_specified import NotSpecified


class RelativePositionalEncodingLayer(DimsOfSourceLayer, _ConcatInputLayer):
    """
    For each pair of a query and a key, a vector that stands for the distance between them.

    Source [..., T, ...], output [T, T', F], where T' are as many frames as T. Inside of a loop, for a source without
    time dim: [1, T', F], where T' are the frames so far, and the query is the last one. Parameter `encoding_matrix`:
    [2 * clipping + 1, F]. It is made for the option `key_shift` of "self_attention". If T and T' are given as `Dim`,
    no source is needed.
    """

    layer_class = "relative_positional_encoding"
    recurrent = True

    def __init__(
        self,
        out_dim: Dim | None = None,
        n_out: int | None = None,
        forward_weights_init: Any = "glorot_uniform",
        clipping: int = 16,
        fixed: bool = False,
        query_spatial_dim: Any = NotSpecified,
        key_value_spatial_dim: Any = NotSpecified,
        query_offset: int | type[NotSpecified] = NotSpecified,
        **kwargs: Any,
    ) -> None:
        """
        :param out_dim: F
        :param n_out: size of F
        :param forward_weights_init: initial value of `encoding_matrix`
        :param clipping: frames further away than this count as at this distance
        :param fixed: sinusoids of the distance, instead of a parameter
        :param query_spatial_dim: T: dim, or description of one of the source. Default: the time dim. None, or
            `single_step_dim`: a single query, without dim for it; in a loop, the frame of the step
        :param key_value_spatial_dim: T': the same. Default: a new dim
        :param query_offset: number of the first query, in frames. Default: 0; inside of a loop, the one of the step
        """
        super().__init__(out_dim=out_dim, n_out=n_out, **kwargs)
        self.forward_weights_init = forward_weights_init
        self.clipping = clipping
        self.fixed = fixed
        self.query_spatial_dim = query_spatial_dim
        self.key_value_spatial_dim = key_value_spatial_dim
        self.query_offset = query_offset
        if clipping < 1:
            raise ConfigError(f"{self.where()}: option 'clipping': expected at least 1, got {clipping}.")

    def given_dims(self) -> list[Any]:
        """:return: T, unless there is a single query, and T'"""
        single = self.query_spatial_dim in (None, single_step_dim)
        return [*([] if single else [self.query_spatial_dim]), self.key_value_spatial_dim]

    def compute(self, source: Tensor) -> Tensor:
        """:return: [T, T', F]"""
        feature = self.output_feature_dim(source.feature_dim)
        queries, keys, query_dims = self._positions(source)
        if self.query_offset is not NotSpecified:
            queries = queries + self.query_offset
        distance = rf.combine_bc(keys, "-", queries)
        index = rf.minimum(rf.maximum(distance, -self.clipping), self.clipping) + self.clipping
        encoding = sinusoids(index, feature) if self.fixed else self._learned(index, feature)
        encoding = rf.expand_to(encoding, query_dims).copy_with_roles(feature_dim=feature)
        return encoding.copy_transpose([*query_dims, *keys.dims, feature])

    def _learned(self, index: Tensor, feature: Dim) -> Tensor:
        distances = self.new_dim("clipped distance", 2 * self.clipping + 1)
        matrix = self.parameter("encoding_matrix", [distances, feature], initial=self.forward_weights_init)
        return rf.gather(matrix, indices=index, axis=distances)

    def _positions(self, source: Tensor) -> tuple[Tensor, Tensor, list[Dim]]:
        """:return: numbers of the queries, scalar or [T]; of the keys, [T']; dims of the queries in the output"""
        given_query, given_keys = self.query_spatial_dim, self.key_value_spatial_dim
        if given_query is NotSpecified and given_keys is NotSpecified:
            axis, is_frame = self.sequence_dim_of(source, "T")
            if is_frame or axis == self.network.get_inside_rec_time_dim(inside_loop=False):
                return self._positions_in_loop(axis, is_frame=is_frame)
            return frame_numbers(axis), frame_numbers(self.new_dim_like("keys", axis)), [axis]
        query = None
        if given_query not in (None, single_step_dim):
            query = self._dim(source, given_query, option="query_spatial_dim")
        if given_keys is NotSpecified and query is not None:
            keys = self.new_dim_like("keys", query)
        else:
            keys = self._dim(source, given_keys, option="key_value_spatial_dim")
            if given_keys is NotSpecified:
                keys = self.new_dim_like("keys", keys)
        if query is None:
            number = self._number_of_single_query(source)
            return number, frame_numbers(keys), list(number.dims)
        return frame_numbers(query), frame_numbers(keys), [query]

    def _number_of_single_query(self, source: Tensor) -> Tensor:
        """:return: number of a query that has no dim, scalar; in all frames of a loop at once, [loop]"""
        networks = self.network.get_network_hierarchy()
        is_in_loop = any(net.inside_rec_time_dim or net.over_rec_time_dim for net in networks)
        if self.query_offset is not NotSpecified or not is_in_loop:
            return rf.constant(0, dims=(), dtype="int32")
        loop_dim, is_frame = self.sequence_dim_of(source, single_step_dim, option="query_spatial_dim")
        return frames_before(self) if is_frame else frame_numbers(loop_dim)

    def _positions_in_loop(self, axis: Dim, *, is_frame: bool) -> tuple[Tensor, Tensor, list[Dim]]:
        """:return: like `_positions`: the keys of each step are the frames so far"""
        step = frames_before(self) if is_frame else frame_numbers(axis)
        past = self.new_dim("frames so far")
        past.dyn_size_ext = step + 1
        query = self.new_dim("query", 1, auto_generated=False)
        first = step if self.query_offset is NotSpecified else step * 0
        return first, frame_numbers(past), [*step.dims, query] if is_frame else [query, axis]

    def _dim(self, source: Tensor, dim: Any, *, option: str) -> Dim:
        return dim if isinstance(dim, Dim) else self.dim_of(source, "T" if dim is NotSpecified else dim, option=option)
