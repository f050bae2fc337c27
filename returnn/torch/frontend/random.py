"""Random values of PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import torch

from returnn.frontend._ops.random_source import RandomSource
from returnn.torch.frontend.raw import RawTorchOps
from returnn.util.errors import UserError


class RandomTorchOps:
    """The raw operations of `returnn.frontend._backends.required`."""

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
    def random_uniform_raw(shape: Sequence[int], dtype: str, source: RandomSource, device: str | None) -> torch.Tensor:
        """:return: floats in [0, 1)"""
        torch_dtype = RawTorchOps.as_dtype_raw(dtype)
        generator = _generator(source, device)
        if generator is None:  # with one, `torch.compile` wants sizes that do not change
            return torch.rand(tuple(shape), dtype=torch_dtype, device=device)
        return torch.rand(tuple(shape), generator=generator, dtype=torch_dtype, device=device)

    @staticmethod
    def random_ints_raw(
        shape: Sequence[int], dtype: str, low: Any, high: Any, source: RandomSource, device: str | None
    ) -> torch.Tensor:
        """:return: integers in [low, high)"""
        return torch.randint(
            int(low),
            int(high),
            tuple(shape),
            generator=_generator(source, device),
            dtype=RawTorchOps.as_dtype_raw(dtype),
            device=device,
        )

    @staticmethod
    def random_normal_raw(shape: Sequence[int], dtype: str, source: RandomSource, device: str | None) -> torch.Tensor:
        """:return: normal values"""
        values = torch.empty(tuple(shape), dtype=RawTorchOps.as_dtype_raw(dtype), device=device)
        return values.normal_(generator=_generator(source, device))

    @staticmethod
    def random_truncated_raw(
        shape: Sequence[int], dtype: str, low: Any, high: Any, source: RandomSource, device: str | None
    ) -> torch.Tensor:
        """:return: truncated normal values"""
        values = torch.empty(tuple(shape), dtype=RawTorchOps.as_dtype_raw(dtype), device=device)
        return torch.nn.init.trunc_normal_(values, a=float(low), b=float(high), generator=_generator(source, device))


def _generator(source: RandomSource, device: str | None) -> torch.Generator | None:
    """:return: generator for this source; None for the one of PyTorch"""
    if source.algorithm not in (None, "auto_select"):
        raise UserError(f"random: PyTorch has its own algorithm, not {source.algorithm!r}.")
    number = source.number(lambda state: state.detach().cpu().numpy())
    if number is None:
        return None
    return torch.Generator(device=device or torch.get_default_device()).manual_seed(number)
