"""Frames that a mask marks, as a sequence of their own, and back."""

from __future__ import annotations

from collections.abc import Sequence

from returnn.frontend._ops.layout import raw_in_order
from returnn.frontend._ops.operands import OperandOps, fail, require_dims, shown
from returnn.tensor import Dim, Tensor
from returnn.util.errors import DtypeError


class MaskedOps(OperandOps):
    """Frames that a mask marks."""

    @classmethod
    def masked_select(
        cls, tensor: Tensor, *, mask: Tensor, dims: Sequence[Dim], out_dim: Dim | None = None
    ) -> tuple[Tensor, Dim]:
        """
        :param tensor: {dims..., ...}
        :param mask: {dims...}, bool
        :param dims: in this order
        :param out_dim: for `dims`; gets a size
        :return: [out_dim, ...], with what is true in the mask; out_dim
        """
        mask = cls.as_tensor(mask)
        _check_mask("masked_select", mask, dims)
        require_dims("masked_select", tensor, dims)
        if out_dim is None:
            out_dim = Dim(None, name="masked-select", kind=dims[-1].kind)
        if out_dim.size is None and out_dim.dyn_size_ext is None:
            out_dim.dyn_size_ext = Tensor("masked-select:lengths", dims=(), dtype="int32")
        rest = [i for i, dim in enumerate(tensor.dims) if dim not in dims]
        out = tensor._with_axes([out_dim, *(tensor.dims[i] for i in rest)], [None, *rest])
        if cls.computes:
            raw = raw_in_order(tensor, [*dims, *out.dims[1:]])
            out._raw_tensor = cls.masked_select_raw(raw, raw_in_order(mask, dims))
            if out_dim.size is None and out_dim.dyn_size is None:
                size = cls.get_shape_tuple_raw(out._raw_tensor)[0]
                raw_size = size if isinstance(size, cls.RawTensorType) else cls.constant_raw(size, "int32", "cpu")
                out_dim.dyn_size_ext = Tensor("masked-select:lengths", dims=(), dtype="int32", raw_tensor=raw_size)
        return out, out_dim

    @classmethod
    def masked_scatter(
        cls, source: Tensor, backup: Tensor | None = None, *, mask: Tensor, dims: Sequence[Dim], in_dim: Dim
    ) -> Tensor:
        """
        :param source: {in_dim, ...}
        :param backup: {dims..., ...}, for what is false in the mask; default 0
        :param mask: {dims...}, bool
        :param dims: in this order
        :param in_dim: the frames to put where the mask is true
        :return: [dims..., ...]
        """
        mask = cls.as_tensor(mask)
        _check_mask("masked_scatter", mask, dims)
        require_dims("masked_scatter", source, [in_dim])
        rest = [i for i, dim in enumerate(source.dims) if dim != in_dim]
        out = source._with_axes([*dims, *(source.dims[i] for i in rest)], [*[None] * len(dims), *rest])
        if backup is not None:
            require_dims("masked_scatter", out, backup.dims)
            if backup.dtype != source.dtype:
                raise DtypeError(f"masked_scatter: the dtypes of {source} and {backup} differ.\n  Use rf.cast on one.")
        if cls.computes:
            raw_backup = None
            if backup is not None:
                raw_backup = cls.as_tensor(backup).copy_compatible_to_dims_raw(out.dims, unbroadcast=True)
            raw = raw_in_order(source, [in_dim, *out.dims[len(dims) :]])
            out._raw_tensor = cls.masked_scatter_raw(raw, raw_in_order(mask, dims), raw_backup)
        return out


def require_mask(operation: str, mask: Tensor) -> None:
    """:raises DtypeError: if the mask is not bool"""
    if mask.dtype != "bool":
        raise DtypeError(f"{operation}: the mask {mask} should be bool. Compare with something first, such as `x > 0`.")


def _check_mask(operation: str, mask: Tensor, dims: Sequence[Dim]) -> None:
    """
    :raises DtypeError: if the mask is not bool
    :raises DimError: if its dims are not these
    """
    require_mask(operation, mask)
    if mask.dims_set != set(dims):
        raise fail(f"{operation}: the mask {mask} should have exactly the dims {shown(dims)}.")
