"""Rules of random values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from returnn.frontend._template_backend.rules import fail
from returnn.tensor import Dim, Tensor
from returnn.util.errors import check_known

DISTRIBUTIONS = ("uniform", "normal", "truncated_normal", "bernoulli")


class RandomRules:
    """Rules of random values. For their meaning see `returnn.frontend._interface.random`."""

    @staticmethod
    def random(
        *,
        dims: Sequence[Dim],
        dtype: str,
        sparse_dim: Dim | None = None,
        feature_dim: Dim | None = None,
        distribution: str,
        explicit_state: Any = None,
        auto_update_state: bool | None = None,
        algorithm: str | None = None,
        out: Tensor | None = None,
        **_options: Any,
    ) -> Tensor:
        """:return: template"""
        check_known("distribution", distribution, DISTRIBUTIONS, where="random")
        for name, value in (("explicit_state", explicit_state), ("algorithm", algorithm)):
            if value is not None:
                raise fail(f"random: {name} is not possible with this backend, got {value!r}.", "Give a seed instead.")
        if auto_update_state:
            raise fail("random: auto_update_state needs an explicit_state.")
        if out is not None and set(out.dims) != set(dims):
            raise fail(f"random: out is {out}, which does not have the dims {list(map(str, dims))}.")
        return Tensor("random", dims=dims, dtype=dtype, sparse_dim=sparse_dim, feature_dim=feature_dim)
