"""
Cases of frontend operations, from which property tests follow (`test_op_properties.py`).

A case is a function of random inputs that uses frontend functions only:

    @op_case("matmul")
    def matmul_with_weights(inputs):
        feature, out = inputs.static("feature"), inputs.static("out")
        x = inputs.floats([inputs.batch, inputs.dynamic("time"), feature])
        return rf.matmul(x, inputs.floats([feature, out]), reduce=feature)

It is run on each backend with the same dims and values, and with the axes in various orders. What it draws (dims,
sizes, tensors, choices) must be drawn in the same order each time and must not depend on values. It returns a tensor,
or several (tuple, list, dict); a returned dim stands for its lengths.

Put cases into a module of `op_cases`; they are found there.
"""

from __future__ import annotations

import importlib
import pkgutil
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy

from returnn.tensor import Dim, Tensor

SEED_WITH_EMPTY_SEQUENCES = 2  # all sequences which may be empty are
BackendName = Literal["numpy", "torch", "tf", "template"]


@dataclass(frozen=True)
class OpCase:
    """An operation, or several, on random inputs."""

    name: str
    covers: tuple[str, ...]  # methods of `Backend`
    run: Callable[[Inputs], Any]
    differentiable: bool = True  # compare gradients with respect to all float inputs
    nan_gradients: bool = True  # False: for an operand, the sum over frames of another, where 0 * NaN counts
    random: bool = False  # values are random: only compare dims and dtypes
    per_sequence: bool = True  # each sequence of a batch gets what it would get alone
    same_order: bool = False  # the order of the axes in memory is part of the meaning
    backends: tuple[BackendName, ...] = ("numpy", "torch", "tf", "template")
    rtol: float = 1e-4
    atol: float = 1e-5

    def __str__(self) -> str:
        return self.name


def op_case(*covers: str, **options: Any) -> Callable[[Callable[[Inputs], Any]], OpCase]:
    """:return: decorator that makes an `OpCase`, named like the function"""
    return lambda function: OpCase(name=function.__name__, covers=covers, run=function, **options)


def all_cases() -> list[OpCase]:
    """:return: the cases of all modules of `op_cases`: module attributes, or members of lists there"""
    package = importlib.import_module("tests.frontend.op_cases")
    cases: dict[str, OpCase] = {}
    for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda m: m.name):
        module = importlib.import_module(f"{package.__name__}.{info.name}")
        for value in vars(module).values():
            for case in value if isinstance(value, (list, tuple)) else [value]:
                if isinstance(case, OpCase):
                    assert cases.setdefault(case.name, case) is case, f"two cases are named {case.name!r}"
    return list(cases.values())


@dataclass(frozen=True)
class Variant:
    """Which values the same inputs get: what padded frames hold, and whether it is the whole batch."""

    padding: Literal["nan", "garbage", "other garbage"] = "nan"
    entry: int | None = None  # the only sequence in the batch, which has no padding then


@dataclass
class Input:
    """One raw tensor that goes in."""

    raw: Any
    value_of: Callable[[Variant], numpy.ndarray]  # (variant) -> in the layout of `raw`
    tensor: Tensor | None  # None: these are lengths
    canonical: Sequence[int]  # axes of the layout, in the order in which the case named the dims
    mask: numpy.ndarray | None  # valid frames, canonical order, of the whole batch


class Inputs:
    """Where a case draws its dims, sizes and tensors from. The same seed gives the same."""

    def __init__(
        self,
        case: OpCase,
        seed: int,
        make_raw: Callable[[numpy.ndarray, Sequence[Dim]], Any],
        *,
        layout: int = 0,
        variant: Variant | None = None,
        float_dtype: str = "float32",
    ) -> None:
        """
        :param case: it is part of the seed
        :param seed:
        :param make_raw: (array, dims) -> raw tensor of a backend; None for a template
        :param layout: seed for the orders of axes in memory; 0: as the case names them
        :param variant: the values to begin with
        :param float_dtype: of floats for which the case names none
        """
        self._seed = (seed, zlib.crc32(case.name.encode()))
        self._random = numpy.random.RandomState(self._seed)
        self._layout = numpy.random.RandomState((*self._seed, layout)) if layout and not case.same_order else None
        self._make_raw = make_raw
        self._variant = variant or Variant()
        self._float_dtype = float_dtype
        self._all_empty = seed == SEED_WITH_EMPTY_SEQUENCES
        self._lengths: dict[Dim, tuple[numpy.ndarray, tuple[Dim, ...]]] = {}  # of the whole batch, with their dims
        self._counts: dict[str, int] = {}
        self._batch: Dim | None = None
        self.inputs: list[Input] = []
        self.batch_size = int(self._random.choice([1, 2, 3, 3, 4]))

    @property
    def batch(self) -> Dim:
        """The batch dim."""
        if self._batch is None:
            is_static = self._random.randint(4) == 0
            entries = self.batch_size if self._variant.entry is None else 1
            self._batch = Dim(entries if is_static else None, name="batch", kind=Dim.Types.Batch)
            if not is_static:
                self._set_lengths(self._batch, numpy.array(self.batch_size, "int32"), ())
        return self._batch

    @property
    def any_batch_size(self) -> bool:
        """Whether the batch size is not a fixed number."""
        return self._batch is None or self._batch.size is None

    def dynamic(self, name: str = "time", *, low: int = 0, high: int = 5, over: Sequence[Dim] | None = None) -> Dim:
        """
        :param low: shortest length; if it is 0, now and then all sequences are empty, with the seed for it always
        :param high: longest length
        :param over: which dims the lengths depend on; default: the batch dim
        :return: a spatial dim with sequences of different lengths
        """
        over = (self.batch,) if over is None else tuple(over)
        dim = Dim(None, name=self._unique(name), kind=Dim.Types.Spatial)
        is_empty = self._random.randint(8) == 0 or self._all_empty
        high = low if low == 0 and is_empty else high
        lengths = self._random.randint(low, high + 1, size=[self._size(d) for d in over]).astype("int32")
        self._set_lengths(dim, numpy.asarray(lengths), over)
        return dim

    def static(self, name: str = "feature", size: int | None = None, *, low: int = 1, high: int = 4) -> Dim:
        """
        :param size: None: random, from `low` to `high`
        :return: a dim of fixed size; of kind feature, if the name begins like this
        """
        size = self.number(low, high) if size is None else size
        kind = Dim.Types.Feature if name.startswith("feat") else Dim.Types.Spatial
        return Dim(size, name=self._unique(name), kind=kind)

    def spatial(self, name: str = "spatial", *, low: int = 0, high: int = 5) -> Dim:
        """:return: a dim of fixed size, or with sequences of different lengths"""
        if self._random.randint(3) == 0:
            return self.static(name, low=max(low, 1), high=high)
        return self.dynamic(name, low=low, high=high)

    def dims(self, *, low: int = 0, high: int = 3) -> list[Dim]:
        """:return: several random dims, in random order, often with the batch dim"""
        makers = [lambda: self.batch, self.dynamic, self.spatial, self.static, lambda: self.static("axis")]
        chosen = self._random.permutation(len(makers))[: self.number(low, high)]
        return [makers[i]() for i in chosen]

    def new_dim(self, name: str = "out", size: int | None = None) -> Dim:
        """:return: a dim about which nothing else is known yet, to be given as `out_dim`"""
        return Dim(size, name=self._unique(name))

    def number(self, low: int, high: int) -> int:
        """:return: random number from `low` to `high`, both included"""
        return int(self._random.randint(low, high + 1))

    def choice(self, options: Sequence[Any]) -> Any:
        """:return: one of the options"""
        return options[self._random.randint(len(options))]

    def subset(self, options: Sequence[Any], *, low: int = 1) -> list[Any]:
        """:return: at least `low` of the options, in random order"""
        return [options[i] for i in self._random.permutation(len(options))[: self.number(low, len(options))]]

    def floats(
        self,
        dims: Sequence[Dim],
        *,
        low: float | None = None,
        high: float | None = None,
        dtype: str | None = None,
        feature_dim: Dim | None = None,
        name: str = "floats",
    ) -> Tensor:
        """
        :param low: with `high`, values are uniform in between; otherwise normally distributed
        :return: tensor with NaN in padded frames
        """

        dtype = dtype or self._float_dtype

        def draw(random: numpy.random.RandomState, shape: Sequence[int]) -> numpy.ndarray:
            if low is None or high is None:
                value = random.normal(size=shape)
                return value + 1j * random.normal(size=shape) if dtype.startswith("complex") else value
            return random.uniform(low, high, size=shape)

        return self._tensor(name, dims, dtype, draw, feature_dim=feature_dim, nan=True)

    def ints(
        self, dims: Sequence[Dim], *, low: int = 0, high: int = 5, dtype: str = "int32", name: str = "ints"
    ) -> Tensor:
        """:return: tensor of integers from `low` to `high`, both included"""
        return self._tensor(name, dims, dtype, lambda random, shape: random.randint(low, high + 1, size=shape))

    def bools(self, dims: Sequence[Dim], *, name: str = "bools") -> Tensor:
        """:return: bool tensor"""
        return self._tensor(name, dims, "bool", lambda random, shape: random.randint(2, size=shape) > 0)

    def sparse(self, dims: Sequence[Dim], into: Dim, *, dtype: str = "int32", name: str = "indices") -> Tensor:
        """
        :param into: static, or dynamic with lengths over some of `dims`, or over others: then the shortest one counts
        :return: tensor of indices into a dim, all of them valid
        """

        def draw(random: numpy.random.RandomState, shape: Sequence[int]) -> numpy.ndarray:
            limit = numpy.asarray(into.size) if into.size is not None else self._lengths_along(into, dims, numpy.min)
            return (random.uniform(0, 1, size=shape) * limit).astype("int64")

        return self._tensor(name, dims, dtype, draw, sparse_dim=into)

    def _tensor(
        self,
        name: str,
        dims: Sequence[Dim],
        dtype: str,
        draw: Callable[[numpy.random.RandomState, Sequence[int]], numpy.ndarray],
        *,
        nan: bool = False,
        **options: Any,
    ) -> Tensor:
        dims = list(dims)
        seed = (*self._seed, len(self.inputs))
        mask = self._mask(dims)
        order = (
            list(range(len(dims))) if self._layout is None else [int(i) for i in self._layout.permutation(len(dims))]
        )

        def value_of(variant: Variant) -> numpy.ndarray:
            value = _draw_padded(seed, draw, [self._size(d) for d in dims], mask, variant, nan=nan)
            return self._entry(value, dims, variant).transpose(order).astype(dtype)

        layout = [dims[i] for i in order]
        raw = self._make_raw(value_of(self._variant), layout)
        tensor = Tensor(self._unique(name), layout, dtype, raw_tensor=raw, **options)
        canonical = [order.index(i) for i in range(len(dims))]
        self.inputs.append(Input(raw, value_of, tensor, canonical, mask))
        return tensor

    def _set_lengths(self, dim: Dim, lengths: numpy.ndarray, over: tuple[Dim, ...]) -> None:
        self._lengths[dim] = lengths, over

        def value_of(variant: Variant) -> numpy.ndarray:
            if dim is self._batch:
                return numpy.array(self.batch_size if variant.entry is None else 1, "int32")
            return self._entry(lengths, over, variant)

        raw = self._make_raw(value_of(self._variant), over)
        dim.dyn_size_ext = Tensor(f"{dim.name}:lengths", over, "int32", raw_tensor=raw)
        self.inputs.append(Input(raw, value_of, None, range(len(over)), None))

    def _entry(self, value: numpy.ndarray, dims: Sequence[Dim], variant: Variant) -> numpy.ndarray:
        """:return: the part of an array over the whole batch which the variant has"""
        if variant.entry is None:
            return value
        for axis, dim in enumerate(dims):
            if dim is self._batch:
                value = value.take([variant.entry], axis)
            elif dim in self._lengths:
                lengths, over = self._lengths[dim]
                value = value.take(range(int(self._entry(lengths, over, variant).max())), axis)
        return value

    def _size(self, dim: Dim) -> int:
        """:return: size of the axis for the whole batch"""
        if dim is self._batch:
            return self.batch_size
        if dim in self._lengths:
            return int(self._lengths[dim][0].max())
        assert dim.size is not None, f"{dim} was not made by these inputs"
        return dim.size

    def _mask(self, dims: Sequence[Dim]) -> numpy.ndarray:
        """:return: over the whole batch, the frames which are valid for some sequence"""
        mask = numpy.ones([self._size(d) for d in dims], bool)
        for axis, dim in enumerate(dims):
            if dim in self._lengths and self._lengths[dim][1]:
                frames = numpy.arange(mask.shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(dims))])
                mask = mask & (frames < self._lengths_along(dim, dims, numpy.max))
        return mask

    def _lengths_along(self, dim: Dim, dims: Sequence[Dim], reduce: Callable[..., Any]) -> numpy.ndarray:
        """:return: lengths of `dim`, with one axis for each of `dims`, reduced over those which are not among them"""
        lengths, over = self._lengths[dim]
        lengths = numpy.asarray(reduce(lengths, axis=tuple(axis for axis, d in enumerate(over) if d not in dims)))
        rest = [d for d in over if d in dims]
        lengths = lengths.transpose([rest.index(d) for d in dims if d in rest])
        return lengths.reshape([self._size(d) if d in rest else 1 for d in dims])

    def _unique(self, name: str) -> str:
        self._counts[name] = number = self._counts.get(name, 0) + 1
        return name if number == 1 else f"{name}{number}"


def _draw_padded(
    seed: tuple[int, ...],
    draw: Callable[[numpy.random.RandomState, Sequence[int]], numpy.ndarray],
    shape: Sequence[int],
    mask: numpy.ndarray,
    variant: Variant,
    *,
    nan: bool,
) -> numpy.ndarray:
    value = numpy.asarray(draw(numpy.random.RandomState(seed), shape))
    padding_seed = {"nan": 1, "garbage": 1, "other garbage": 2}[variant.padding]
    padding: Any = draw(numpy.random.RandomState((*seed, padding_seed)), shape)
    if nan:  # a float
        padding = numpy.nan if variant.padding == "nan" else padding * 10
    return numpy.where(mask, value, padding)
