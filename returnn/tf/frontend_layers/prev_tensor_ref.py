"""`PrevTensorRef`: what a layer of a loop put out in the frame before."""

from __future__ import annotations

from typing import Any

from returnn.tensor import Tensor
from returnn.tf.frontend_layers.layer import Layer


class PrevTensorRef(Tensor[Any]):
    """The output of "prev:x", where x is a layer which may not exist yet."""

    def __init__(self, *, name_ctx: Layer, cur_layer_name_ctx: Layer, data: Tensor[Any]) -> None:
        """
        :param name_ctx: the place "prev:x"
        :param cur_layer_name_ctx: the place "x"
        :param data: template
        """
        super().__init__(data.name, dims=data.dims, dtype=data.dtype, sparse_dim=data.sparse_dim)
        self.feature_dim = data.feature_dim
        self.cur_layer_name_ctx = cur_layer_name_ctx
        name_ctx.virtual = True
        name_ctx.layer_extra_dependencies = [cur_layer_name_ctx]
        name_ctx.set_tensor(self)

    def _with_same_axes(self, *, name: str | None = None, dtype: str | None = None) -> Any:
        return _plain(self)._with_same_axes(name=name, dtype=dtype)

    @classmethod
    def get_prev_ref(cls, *, cur_layer_name_ctx: Layer, initial: Tensor[Any]) -> PrevTensorRef:
        """
        :param cur_layer_name_ctx: a layer in a loop
        :param initial: what it looks like
        :return: its output in the frame before
        """
        around = cur_layer_name_ctx.parent
        assert around is not None
        place = around.get_child(f"prev:{cur_layer_name_ctx.name}")
        return cls(name_ctx=place, cur_layer_name_ctx=cur_layer_name_ctx, data=initial)

    def assign_new_cur_tensor_name_ctx(self, cur_tensor_name_ctx: Layer) -> None:
        """
        Another layer is the one whose output in the frame before this is.

        :param cur_tensor_name_ctx: layer in the same loop
        """
        self.cur_layer_name_ctx = cur_tensor_name_ctx
        place: Layer = self.raw_tensor
        place.layer_extra_dependencies = [cur_tensor_name_ctx]
        assert cur_tensor_name_ctx.parent is not None
        place.assign_parent(cur_tensor_name_ctx.parent, f"prev:{cur_tensor_name_ctx.name}")


def _plain(x: PrevTensorRef) -> Tensor[Any]:
    """:return: template which is no such reference"""
    return Tensor(
        x.name,
        dims=x.dims,
        dtype=x.dtype,
        sparse_dim=x.sparse_dim,
        feature_dim_axis=x.feature_dim_axis,
        time_dim_axis=x.time_dim_axis,
    )
