"""Random values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from returnn.tensor import Dim, Tensor


class RandomOps:
    """Random values, and the state that they come from."""

    @staticmethod
    def set_random_seed(seed: int) -> None:
        """Begins anew: the same seed gives the same random values, in the same order."""
        raise NotImplementedError

    @staticmethod
    def get_random_state() -> dict[str, bytes]:
        """:return: state of the random generators"""
        raise NotImplementedError

    @staticmethod
    def set_random_state(state: dict[str, bytes]) -> None:
        """
        :param state: what `get_random_state` returned. On other hardware, or with another version of the backend, this
            may not succeed; so `set_random_seed` should have been called before
        """
        raise NotImplementedError

    @staticmethod
    def random(
        *,
        dims: Sequence[Dim],
        dtype: str,
        device: str | None = None,
        sparse_dim: Dim | None = None,
        feature_dim: Dim | None = None,
        distribution: str,
        mean: int | float | Tensor | None = None,
        stddev: int | float | Tensor | None = None,
        bound: int | float | Tensor | None = None,
        minval: int | float | Tensor | None = None,
        maxval: int | float | Tensor | None = None,
        seed: int | Sequence[int] | Any = None,
        algorithm: str | None = None,
        explicit_state: Tensor | None = None,
        auto_update_state: bool | None = None,
        static: bool | None = None,
        out: Tensor | None = None,
    ) -> Tensor:
        """See `returnn.frontend.random`."""
        raise NotImplementedError

    @classmethod
    def random_choice_with_replacement(cls, dims: Sequence[Dim], *, probs: Tensor, axis: Dim) -> Tensor:
        """
        See `returnn.frontend.random_choice_with_replacement`. The maximum of the log probabilities with Gumbel noise is
        distributed like the probabilities (Gumbel 1954, "Statistical Theory of Extreme Values").
        """
        backend: Any = cls
        noise = cls.random(dims=[*dims, axis], dtype=probs.dtype, distribution="uniform", minval=1e-20, maxval=1.0)
        for func in ("log", "neg", "log", "neg"):
            noise = backend.activation(noise, func)
        scores = backend.combine(noise, "add", backend.activation(probs, "log"))
        result: Tensor = backend.reduce(scores, mode="argmax", axis=axis)
        return result
