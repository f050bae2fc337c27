"""Random values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from returnn.frontend._backend import get_backend_of, get_global_backend
from returnn.frontend._reduce import top_k
from returnn.frontend.device import get_default_device
from returnn.frontend.dtype import get_default_float_dtype
from returnn.frontend.math_ import log
from returnn.frontend.run_ctx import get_run_ctx
from returnn.tensor import Dim, Tensor
from returnn.util.errors import UserError

_calls_in_step = [0]


def set_random_seed(seed: int) -> None:
    """Begins anew: the same seed gives the same random values, in the same order."""
    get_global_backend().set_random_seed(seed)


def get_random_state() -> dict[str, bytes]:
    """:return: state of the random generators of the selected backend"""
    return get_global_backend().get_random_state()


def set_random_state(state: dict[str, bytes]) -> None:
    """
    :param state: what `get_random_state` returned. Call `set_random_seed` before, as this may not succeed on other
        hardware, or with another version of the backend
    """
    get_global_backend().set_random_state(state)


def reset_step_random_state() -> None:
    """To be called at the beginning of each step, so that `get_static_step_based_seed` counts from there."""
    _calls_in_step[0] = 0


def get_static_step_based_seed(*, size: int | None = None) -> int | numpy.ndarray:
    """
    :param size: how many numbers; None for one number
    :return: seed which depends only on the step, and how often this was called in it
    """
    step = get_run_ctx().step
    _calls_in_step[0] += 1
    sequence = numpy.random.SeedSequence([int(step) if isinstance(step, int) else 0, _calls_in_step[0]])
    numbers = (sequence.generate_state(size or 1) >> 1).astype("int64")
    return int(numbers[0]) if size is None else numbers


def random(
    dims: Sequence[Dim],
    *,
    dtype: str | None = None,
    device: str | None = None,
    sparse_dim: Dim | None = None,
    feature_dim: Dim | None = None,
    distribution: str,
    mean: int | float | Tensor | None = None,
    stddev: int | float | Tensor | None = None,
    bound: int | float | Tensor | None = None,
    minval: int | float | Tensor | None = None,
    maxval: int | float | Tensor | None = None,
    seed: int | Sequence[int] | numpy.ndarray | None = None,
    algorithm: str | None = None,
    explicit_state: Tensor | None = None,
    auto_update_state: bool | None = None,
    static: bool | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """
    :param dims: of the result
    :param dtype: default: the default float dtype; int32 with a sparse dim
    :param device: such as "cpu"
    :param sparse_dim: what the values are indices into
    :param feature_dim: one of the dims
    :param distribution: "uniform", "normal", "truncated_normal", "bernoulli"
    :param mean: of a normal distribution; probability of 1, for "bernoulli"
    :param stddev: standard deviation of a normal distribution, before truncation
    :param bound: uniform in [-bound, bound)
    :param minval: uniform in [minval, maxval). Of a truncated normal distribution, the lowest value; default:
        mean - 2 * stddev
    :param maxval: see `minval`
    :param seed: number or numbers. Eager code gives the same values for the same seed; a graph does so only with
        `static`, otherwise each run gives others
    :param algorithm: "philox", "auto_select"; "threefry", which TensorFlow lacks but for XLA; PyTorch has only its own
    :param explicit_state: [3], int64: counter and key of Philox (or [2], of Threefry). The values follow from it
    :param auto_update_state: whether the explicit state, a parameter, moves on, so that the next values are others
    :param static: the values depend on the seed alone
    :param out: tensor or parameter that the values are written into
    :raises DimError: if an option does not fit the distribution
    """
    if dtype is None:
        dtype = out.dtype if out is not None else get_default_float_dtype() if sparse_dim is None else "int32"
    result = get_global_backend().random(
        dims=dims,
        dtype=dtype,
        device=device or get_default_device(),
        sparse_dim=sparse_dim,
        feature_dim=feature_dim,
        distribution=distribution,
        mean=mean,
        stddev=stddev,
        bound=bound,
        minval=minval,
        maxval=maxval,
        seed=seed,
        algorithm=algorithm,
        explicit_state=explicit_state,
        auto_update_state=auto_update_state,
        static=static,
        out=out,
    )
    if auto_update_state:
        _move_on(explicit_state)
    if out is None:
        return result
    if hasattr(out, "assign"):  # a parameter
        out.assign(result)
    else:
        out.raw_tensor = result.copy_compatible_to_dims_raw(out.dims)
    return out


def random_uniform(
    dims: Sequence[Dim],
    *,
    dtype: str | None = None,
    device: str | None = None,
    sparse_dim: Dim | None = None,
    feature_dim: Dim | None = None,
    minval: int | float | Tensor = 0,
    maxval: int | float | Tensor = 1,
    seed: int | Sequence[int] | numpy.ndarray | None = None,
    algorithm: str | None = None,
    explicit_state: Tensor | None = None,
    auto_update_state: bool | None = None,
    static: bool | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """:return: uniform in [minval, maxval), see `random`"""
    return random(
        dims,
        dtype=dtype,
        device=device,
        sparse_dim=sparse_dim,
        feature_dim=feature_dim,
        distribution="uniform",
        minval=minval,
        maxval=maxval,
        seed=seed,
        algorithm=algorithm,
        explicit_state=explicit_state,
        auto_update_state=auto_update_state,
        static=static,
        out=out,
    )


def random_normal(
    dims: Sequence[Dim],
    *,
    dtype: str | None = None,
    device: str | None = None,
    sparse_dim: Dim | None = None,
    feature_dim: Dim | None = None,
    mean: int | float | Tensor = 0.0,
    stddev: int | float | Tensor = 1.0,
    seed: int | Sequence[int] | numpy.ndarray | None = None,
    algorithm: str | None = None,
    explicit_state: Tensor | None = None,
    auto_update_state: bool | None = None,
    static: bool | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """:return: normal distribution, see `random`"""
    return random(
        dims,
        dtype=dtype,
        device=device,
        sparse_dim=sparse_dim,
        feature_dim=feature_dim,
        distribution="normal",
        mean=mean,
        stddev=stddev,
        seed=seed,
        algorithm=algorithm,
        explicit_state=explicit_state,
        auto_update_state=auto_update_state,
        static=static,
        out=out,
    )


def random_truncated_normal(
    dims: Sequence[Dim],
    *,
    dtype: str | None = None,
    device: str | None = None,
    sparse_dim: Dim | None = None,
    feature_dim: Dim | None = None,
    mean: int | float | Tensor = 0.0,
    stddev: int | float | Tensor = 1.0,
    minval: int | float | Tensor | None = None,
    maxval: int | float | Tensor | None = None,
    seed: int | Sequence[int] | numpy.ndarray | None = None,
    algorithm: str | None = None,
    explicit_state: Tensor | None = None,
    auto_update_state: bool | None = None,
    static: bool | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """:return: normal distribution without what is below `minval` or above `maxval`, see `random`"""
    return random(
        dims,
        dtype=dtype,
        device=device,
        sparse_dim=sparse_dim,
        feature_dim=feature_dim,
        distribution="truncated_normal",
        mean=mean,
        stddev=stddev,
        minval=minval,
        maxval=maxval,
        seed=seed,
        algorithm=algorithm,
        explicit_state=explicit_state,
        auto_update_state=auto_update_state,
        static=static,
        out=out,
    )


def random_choice_without_replacement(
    *, log_probs: Tensor, axis: Dim, num_samples_dim: Dim, noise_scale: float = 1.0
) -> Tensor:
    """
    Gumbel top-k (Kool et al. 2019, "Stochastic Beams and Where to Find Them").

    :param log_probs: {..., axis}
    :param axis: what to choose from
    :param num_samples_dim: so many choices
    :param noise_scale: 0 takes the most probable ones
    :return: [..., num_samples_dim] -> axis, none twice
    """
    noise = random_uniform(log_probs.dims, dtype=log_probs.dtype, minval=1e-20, maxval=1.0)
    scores = log_probs - log(-log(noise)) * noise_scale if noise_scale else log_probs
    _, indices, _ = top_k(scores, axis=axis, k_dim=num_samples_dim)
    assert isinstance(indices, Tensor)
    return indices


def random_choice_with_replacement(dims: Sequence[Dim], *, probs: Tensor, axis: Dim) -> Tensor:
    """
    :param dims: of the result
    :param probs: {..., axis}, sum up to 1
    :param axis: what to choose from
    :return: [dims] -> axis
    """
    return get_backend_of(probs).random_choice_with_replacement(dims, probs=probs, axis=axis)


def _move_on(state: Any) -> None:
    """Moves the counter on by more than any operation takes of it."""
    if not hasattr(state, "assign_add"):
        raise UserError(f"random: auto_update_state: {state} is no parameter, so it cannot change.")
    (dim,) = state.dims
    state.assign_add(numpy.array([2**32] + [0] * (dim.size - 1), dtype="int64"))


__all__ = [
    "get_random_state",
    "get_static_step_based_seed",
    "random",
    "random_choice_with_replacement",
    "random_choice_without_replacement",
    "random_normal",
    "random_truncated_normal",
    "random_uniform",
    "reset_step_random_state",
    "set_random_seed",
    "set_random_state",
]
