"""Random values of PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import torch

from returnn.torch.frontend.raw import RawTorchOps


class RandomTorchOps:
    """The raw operations of `returnn.frontend._array_backend.random`."""

    @staticmethod
    def set_random_seed(seed: int) -> None:
        """Sets the seed of PyTorch."""
        torch.manual_seed(seed)

    @staticmethod
    def get_random_state() -> dict[str, bytes]:
        """:return: state of the generators of the CPU and the current GPU"""
        state = {"cpu": torch.get_rng_state().numpy().tobytes()}
        if torch.cuda.is_available():
            state["cuda"] = torch.cuda.get_rng_state().numpy().tobytes()
        return state

    @staticmethod
    def set_random_state(state: dict[str, bytes]) -> None:
        """Sets what `get_random_state` returned."""
        torch.set_rng_state(torch.from_numpy(numpy.frombuffer(state["cpu"], dtype="uint8").copy()))
        if "cuda" in state and torch.cuda.is_available():
            torch.cuda.set_rng_state(torch.from_numpy(numpy.frombuffer(state["cuda"], dtype="uint8").copy()))

    @staticmethod
    def random_uniform_raw(
        shape: Sequence[int], dtype: str, low: Any, high: Any, seed: Any, static: bool, device: str | None
    ) -> torch.Tensor:
        """:return: uniform values"""
        generator = _generator(seed, device)
        torch_dtype = RawTorchOps.as_dtype_raw(dtype)
        if not torch_dtype.is_floating_point:
            return torch.randint(
                int(low), int(high), tuple(shape), generator=generator, dtype=torch_dtype, device=device
            )
        values = torch.rand(tuple(shape), generator=generator, dtype=torch_dtype, device=device)
        return values * (high - low) + low

    @staticmethod
    def random_normal_raw(
        shape: Sequence[int], dtype: str, seed: Any, static: bool, device: str | None, *, truncated: bool
    ) -> torch.Tensor:
        """:return: normal values"""
        generator = _generator(seed, device)
        values = torch.empty(tuple(shape), dtype=RawTorchOps.as_dtype_raw(dtype), device=device)
        if truncated:
            return torch.nn.init.trunc_normal_(values, generator=generator)
        return values.normal_(generator=generator)


def _generator(seed: Any, device: str | None) -> torch.Generator | None:
    """:return: generator with this seed; None for the one of PyTorch"""
    if seed is None:
        return None
    value = (
        seed if isinstance(seed, int) else int(numpy.random.SeedSequence([int(x) for x in seed]).generate_state(1)[0])
    )
    return torch.Generator(device=device or "cpu").manual_seed(value)
