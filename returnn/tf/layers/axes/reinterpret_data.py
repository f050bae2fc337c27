"""The same values, seen in another way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tensor.dim_rules import padded_dim
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.merged_lengths import with_lengths
from returnn.tf.layers.core.sources import _ConcatInputLayer
from returnn.tf.layers.options.layer_errors import naming_option
from returnn.util.errors import ConfigError
from returnn.util.not_specified import NotSpecified

_ROLES = {"B": "batch", "BATCH": "batch", "T": "time", "TIME": "time", "F": "feature", "FEATURE": "feature"}


class ReinterpretDataLayer(_ConcatInputLayer):
    """
    Says that the axes of the source are other dims, or that its values are labels. The values stay the same.
    """

    layer_class = "reinterpret_data"
    keeps_zeros = True

    def __init__(
        self,
        switch_axes: str | list[str] | None = None,
        size_base: LayerBase | None = None,
        batch_dim_base: LayerBase | None = None,
        set_axes: Mapping[str, Any] | None = None,
        set_dim_tags: Mapping[Any, Dim] | None = None,
        enforce_batch_major: bool = False,
        enforce_time_major: bool = False,
        set_sparse: bool | None = None,
        set_sparse_dim: Dim | int | type[NotSpecified] | None = NotSpecified,
        increase_sparse_dim: int | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param switch_axes: two of "B", "T", "F", such as "TF": each axis takes the role of the other one
        :param size_base: layer: the sequences have the lengths, and so the dims, of this one; frames beyond are cut off
        :param batch_dim_base: layer: the batch dim is the one of this layer
        :param set_axes: "B", "T" or "F" -> axis by description, which takes this role
        :param set_dim_tags: axis by description -> its new dim
        :param enforce_batch_major: the batch axis comes first
        :param enforce_time_major: the time axis comes first
        :param set_sparse: whether the values are labels
        :param set_sparse_dim: the dim of the labels, or their number
        :param increase_sparse_dim: so many more labels
        """
        super().__init__(**kwargs)
        self.switch_axes = switch_axes
        self.size_base = size_base
        self.batch_dim_base = batch_dim_base
        self.set_axes = set_axes or {}
        self.set_dim_tags = set_dim_tags or {}
        self.enforce_batch_major = enforce_batch_major
        self.enforce_time_major = enforce_time_major
        self.set_sparse = set_sparse
        self.set_sparse_dim = set_sparse_dim
        self.increase_sparse_dim = increase_sparse_dim
        if enforce_batch_major and enforce_time_major:
            raise ConfigError(f"{self.where()}: give either 'enforce_batch_major' or 'enforce_time_major'.")

    def compute(self, source: Tensor) -> Tensor:
        """:return: the same values"""
        roles = self._roles(source)
        renamed = [(self.dim_of(source, axis, option="set_dim_tags"), dim) for axis, dim in self.set_dim_tags.items()]
        out = source.copy()
        for dim, new_dim in renamed:
            out = _with_frames_of(out, dim, new_dim)
        if self.size_base is not None:
            out = self._with_lengths_of(out, self.size_base.output)
        if self.batch_dim_base is not None:
            out = self._with_batch_of(out, self.batch_dim_base.output)
        out = self._with_roles(out, roles)
        if self.enforce_batch_major:
            with naming_option("enforce_batch_major"):
                out = out.copy_as_batch_major()
        if self.enforce_time_major:
            with naming_option("enforce_time_major"):
                out = out.copy_as_time_major()
        return self._with_labels(out)

    def _with_batch_of(self, out: Tensor, base: Tensor) -> Tensor:
        """:return: out, where the batch dim is that of the base, also of the lengths of other dims"""
        old, new = out.get_batch_dim_tag(), base.get_batch_dim_tag()
        if old == new:
            return out
        out, _ = rf.replace_dim(out, in_dim=old, out_dim=new)
        out = with_lengths(self, out, [old], lambda x: rf.replace_dim(x, in_dim=old, out_dim=new)[0])
        out.batch = base.batch
        return out

    def _with_lengths_of(self, out: Tensor, base: Tensor) -> Tensor:
        """:return: out, where dims with sequences of different lengths are those of the base, in order"""
        own, others = self.dims_of(out, "dyn"), self.dims_of(base, "dyn")
        if len(own) != len(others):
            raise ConfigError(f"{self.where()}: option 'size_base': {base} has other dims with lengths than {out}.")
        for dim, other in zip(own, others, strict=True):
            if dim != other:
                out = _with_frames_of(out, dim, other)
        return out

    def _roles(self, source: Tensor) -> dict[str, int]:
        """:return: which role which axis takes"""
        roles = {}
        for name, axis in self.set_axes.items():
            role = _role(name, self.where(), "set_axes")
            roles[role] = source.get_axis_from_description(self.dim_of(source, axis, option="set_axes"))
        if self.switch_axes:
            switched = [_role(name, self.where(), "switch_axes") for name in self.switch_axes]
            dims = [self.dim_of(source, role, option="switch_axes") for role in switched]
            axes = [source.get_axis_from_description(dim) for dim in dims]
            roles.update(zip(switched, reversed(axes), strict=True))
        return roles

    def _with_roles(self, out: Tensor, roles: dict[str, int]) -> Tensor:
        if "batch" in roles and roles["batch"] != out.batch_dim_axis:
            out = self._with_batch_axis(out, roles["batch"])
        dims = {f"{role}_dim": out.dims[axis] for role, axis in roles.items() if role in ("time", "feature")}
        return out.copy_with_roles(**dims)

    def _with_batch_axis(self, out: Tensor, axis: int) -> Tensor:
        """:return: out, where another axis is the batch"""
        old_axis = out.batch_dim_axis
        dims = [out.dims[axis], *([] if old_axis is None else [out.dims[old_axis]])]
        new_dims = [self._of_kind("new-batch", dims[0], Dim.Types.Batch)]
        if old_axis is not None:
            new_dims.append(self._of_kind("old-batch", dims[1], Dim.Types.Spatial))
        for dim, new_dim in zip(dims, new_dims, strict=True):
            out, _ = rf.replace_dim(out, in_dim=dim, out_dim=new_dim)
        return out

    def _of_kind(self, key: str, dim: Dim, kind: Any) -> Dim:
        """:return: dim of another kind, whose frames in memory all count"""
        new = self.new_dim(key, dim.size, kind=kind, auto_generated=False)
        if new.size is None and new.dyn_size is None:
            new.dyn_size_ext = dim.get_dim_value_tensor()
        return new

    def _with_labels(self, out: Tensor) -> Tensor:
        sparse_dim = out.sparse_dim
        if self.set_sparse_dim is not NotSpecified:
            sparse_dim = self._sparse_dim(self.set_sparse_dim)
        elif self.set_sparse and sparse_dim is None:
            sparse_dim = self._sparse_dim(None)
        if self.set_sparse is False:
            sparse_dim = None
        if self.increase_sparse_dim and sparse_dim is not None:
            sparse_dim = sparse_dim + self.increase_sparse_dim
        if sparse_dim is out.sparse_dim:
            return out
        out = rf.set_sparse_dim(out, sparse_dim)
        return out if sparse_dim is None else out.copy_with_roles(feature_dim=None)

    def _sparse_dim(self, given: Any) -> Dim:
        if isinstance(given, Dim):
            return given
        return self.new_dim("sparse-dim", given, kind=Dim.Types.Feature)


def _with_frames_of(source: Tensor, dim: Dim, other: Dim) -> Tensor:
    """:return: source, where the dim is the other one; without frames beyond the end of the longest sequence of that"""
    if dim.size is not None or other.size is not None or not other.is_dim_known():
        return rf.replace_dim(source, in_dim=dim, out_dim=other)[0]
    in_memory = padded_dim(dim)
    if in_memory is not dim:
        source, _ = rf.replace_dim(source, in_dim=dim, out_dim=in_memory)
    return rf.get_backend_by_tensor(source).slice(source, axis=in_memory, start=0, end=other, out_dim=other)


def _role(name: str, where: str, option: str) -> str:
    role = _ROLES.get(name.upper())
    if role is None:
        raise ConfigError(f"{where}: option {option!r}: {name!r} is no role of an axis.\n  Possible: 'B', 'T', 'F'.")
    return role
