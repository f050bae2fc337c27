"""Products of two tensors which are summed over some dims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.reductions.softmax_over_spatial import other_sum_warning
from returnn.util.behavior_version import BehaviorVersion
from returnn.util.errors import ConfigError
from returnn.util.not_specified import NotSpecified


class DotLayer(LayerBase):
    """
    Sum of products: `output[s, i, k] = sum_j a[s, i, j] * b[s, j, k]`.

    Sources [shared..., var1..., reduce...] and [shared..., reduce..., var2...]; output [shared..., var1..., var2...].
    Each of these can be several dims or none.
    """

    layer_class = "dot"

    def __init__(
        self,
        red1: Any = NotSpecified,
        red2: Any = NotSpecified,
        var1: Any = NotSpecified,
        var2: Any = NotSpecified,
        reduce: Any = NotSpecified,
        add_var2_if_empty: bool | type[NotSpecified] = NotSpecified,
        use_mask: bool = True,
        debug: bool = False,
        **kwargs: Any,
    ) -> None:
        """
        :param red1: dims of the first source to sum over, by description
        :param red2: the same of the second source
        :param var1: dims that only the first source has. "auto", the default: all that are not in both
        :param var2: dims that only the second source has
        :param reduce: dims of both sources to sum over, in place of `red1` and `red2`
        :param add_var2_if_empty: if there is no `var2`, the output gets a dim of size 1. Default: only before behavior
            version 3
        :param use_mask: leave out frames beyond the end of their sequence
        :param debug: print the dims of the sources and of the output when the layer is made
        """
        super().__init__(**kwargs)
        is_old = BehaviorVersion.get() < 3
        self.names_of_red = ("red1", "red2")
        if reduce is not NotSpecified:
            if (red1, red2) != (NotSpecified, NotSpecified):
                raise ConfigError(f"{self.where()}: give either the option 'reduce', or 'red1' and 'red2'.")
            red1 = red2 = reduce
            self.names_of_red = ("reduce", "reduce")
        elif not is_old and NotSpecified in (red1, red2):
            raise ConfigError(f"{self.where()}: the option 'reduce' is required, or 'red1' and 'red2'.")
        self.red1, self.red2 = (_given(red1, -1), _given(red2, -2))
        has_old_var = is_old and reduce is NotSpecified
        self.var1, self.var2 = (
            _given(var1, -2 if has_old_var else "auto"),
            _given(var2, -1 if has_old_var else "auto"),
        )
        self.add_var2_if_empty = has_old_var if add_var2_if_empty is NotSpecified else bool(add_var2_if_empty)
        self.use_mask = use_mask
        self.debug = debug
        if len(self.sources) != 2:
            raise ConfigError(f"{self.where()}: two sources are required, not {len(self.sources)}.")

    def compute(self, a: Tensor, b: Tensor) -> Tensor:
        """:return: [shared..., var1..., var2...]"""
        a, b = (self._as_vectors(x, red) for x, red in ((a, self.red1), (b, self.red2)))
        reduce1 = self.dims_of(a, self.red1, option=self.names_of_red[0])
        reduce2 = self.dims_of(b, self.red2, option=self.names_of_red[1])
        self._look_at_dims(reduce1, reduce2)
        explicit1 = None if self.var1 == "auto" else self.dims_of(a, self.var1, option="var1")
        explicit2 = None if self.var2 == "auto" else self.dims_of(b, self.var2, option="var2")
        b, own = self._with_dims_apart(b, [dim for dim in b.dims if dim in reduce1 and dim not in reduce2])
        explicit2 = None if explicit2 is None else [own.get(dim, dim) for dim in explicit2]
        b = self._with_dims_to_reduce(a, b, reduce1, reduce2)
        if explicit1 is not None and explicit2 is not None:
            b, explicit2 = self._with_own_var_dims(b, explicit1, explicit2)
            rest = [d for d in a.dims if d not in (*reduce1, *explicit1)]
            b = _with_shared_dims(b, rest, [d for d in b.dims if d not in (*reduce1, *explicit2)])
        out = rf.matmul(a, b, reduce=reduce1, use_mask=self.use_mask)
        has_var2 = explicit2 if explicit2 is not None else [d for d in b.dims if d not in a.dims]
        if self.add_var2_if_empty and not has_var2:
            shared, dummy = out.dims, self.new_dim_beside("dummy-var2", 1, out.dims)
            out = rf.expand_dim(out, dummy).copy_transpose([*shared, dummy])  # at the end, as other dims of var2
        if self.debug:
            print(f"{self.where()}: {a}, {b}, reduce {reduce1}, output {out}")
        return out

    def _look_at_dims(self, reduce1: list[Dim], reduce2: list[Dim]) -> None:
        """Warns of what is hardly meant."""
        found = map(other_sum_warning, [self, self], self.sources, [reduce1, reduce2])
        self.warning = next(filter(None, found), None) or self._warning_about_pairs(reduce1, reduce2)

    def _warning_about_pairs(self, reduce1: list[Dim], reduce2: list[Dim]) -> str | None:
        for pair in zip(reduce1, reduce2, strict=False):
            static, dynamic = sorted(pair, key=lambda dim: dim.size is None)
            if static.size is not None and dynamic.size is None:
                names = " and ".join(dict.fromkeys(map(repr, self.names_of_red)))
                return (
                    f"{self.where()}: sums over {dynamic}, which has a size of its own in each batch, together with "
                    f"{static}, which always has the same one. Options: {names}."
                )
        return None

    def _as_vectors(self, x: Tensor, reduce: Any) -> Tensor:
        """:return: labels whose dim is summed over as vectors with 1 at the label, so that the sum is a lookup"""
        reduce = reduce if isinstance(reduce, (list, tuple)) else [reduce]
        if x.sparse_dim is None or not any(dim == x.sparse_dim for dim in reduce if isinstance(dim, Dim)):
            return x
        return rf.one_hot(x)

    def _with_dims_apart(self, b: Tensor, dims: Sequence[Dim]) -> tuple[Tensor, dict[Dim, Dim]]:
        """:return: b, where these dims, which a is reduced over, are other ones than those of a; old dim -> new one"""
        new_dims = {dim: self.new_dim_like(f"apart-{i}", dim) for i, dim in enumerate(dims)}
        for dim, new_dim in new_dims.items():
            b, _ = rf.replace_dim(b, in_dim=dim, out_dim=new_dim)
        return b, new_dims

    def _with_dims_to_reduce(self, a: Tensor, b: Tensor, reduce1: list[Dim], reduce2: list[Dim]) -> Tensor:
        """:return: b, with the dims to reduce of a"""
        if not reduce1 or len(reduce1) != len(reduce2):
            raise ConfigError(
                f"{self.where()}: the dims to reduce do not fit: {self.red1!r} of {a} is {reduce1}, "
                f"{self.red2!r} of {b} is {reduce2}."
            )
        pairs = zip([d for d in reduce2 if d not in reduce1], [d for d in reduce1 if d not in reduce2], strict=True)
        for own, other in pairs:
            b, _ = rf.replace_dim(b, in_dim=own, out_dim=other)
        return b

    def _with_own_var_dims(self, b: Tensor, var1: list[Dim], var2: list[Dim]) -> tuple[Tensor, list[Dim]]:
        """:return: b, where dims that a varies over too are other ones; these"""
        own = []
        for i, dim in enumerate(var2):
            if dim in var1:
                new_dim = self.new_dim_like(f"var2-{i}", dim)
                b, dim = rf.replace_dim(b, in_dim=dim, out_dim=new_dim)
            own.append(dim)
        return b, own


def _with_shared_dims(b: Tensor, dims_a: list[Dim], dims_b: list[Dim]) -> Tensor:
    """:return: b, where shared dims of the same size are those of a. The hypotheses of a search are no such dim"""
    free_a = [d for d in dims_a if d not in dims_b and not d.is_beam_dim()]
    for own in [d for d in dims_b if d not in dims_a and not d.is_beam_dim()]:
        other = next((d for d in free_a if d.size == own.size), None)
        if other is not None:
            free_a.remove(other)
            b, _ = rf.replace_dim(b, in_dim=own, out_dim=other)
    return b


def _given(value: Any, default: Any) -> Any:
    return default if value is NotSpecified else value
