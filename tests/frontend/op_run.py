"""Runs cases of operations on the backends, and makes the results comparable."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy
import tensorflow as tf
import torch

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.util.behavior_version import BehaviorVersion
from tests.frontend.op_case import SEED_WITH_EMPTY_SEQUENCES, Inputs, OpCase, Variant
from tests.frontend.reference import compute_by_reference

EVAL_LAYOUT = {"numpy": 0, "torch": 1, "tf": 2}  # seed for the order of axes in memory
TF_SEEDS = (1, SEED_WITH_EMPTY_SEQUENCES)


@dataclass
class Value:
    """An output tensor without backend. Dims are named; names are the same on all backends."""

    dims: tuple[str, ...]
    dtype: str
    sparse_dim: str | None
    feature_dim: str | None
    array: Any = None  # None: template
    sizes: tuple[Any, ...] = ()  # of the axes, according to the dims
    lengths: dict[str, Any] = field(default_factory=dict)  # of its dims
    lengths_dims: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def described(self) -> tuple[Any, ...]:
        """:return: what a template knows; the order of the dims can differ with that of the inputs"""
        return sorted(self.dims), self.dtype, self.sparse_dim, self.feature_dim

    def in_order(self, dims: Sequence[str]) -> numpy.ndarray:
        """:return: the array with its axes in this order"""
        return numpy.asarray(self.array).transpose(axis_order(self.dims, dims))

    def mask(self) -> numpy.ndarray:
        """:return: bool, the frames which are valid for all sequences, if the axis with the sequences is not there"""
        array = numpy.asarray(self.array)
        mask = numpy.ones(array.shape, bool)
        for axis, dim in enumerate(self.dims):
            if dim in self.lengths:
                dims, lengths = self.lengths_dims[dim], numpy.asarray(self.lengths[dim])
                lengths = lengths.min(axis=tuple(i for i, d in enumerate(dims) if d not in self.dims))
                rest = [d for d in dims if d in self.dims]
                lengths = lengths.transpose([rest.index(d) for d in self.dims if d in rest])
                shape = [array.shape[i] if d in rest else 1 for i, d in enumerate(self.dims)]
                frames = numpy.arange(array.shape[axis]).reshape([-1 if i == axis else 1 for i in range(array.ndim)])
                mask = mask & (frames < lengths.reshape(shape))
        return mask


@dataclass
class Result:
    """Of one run of a case."""

    values: list[Value]
    gradients: list[numpy.ndarray | None] = field(default_factory=list)  # for each input; None if it is no float


def axis_order(dims: Sequence[str], order: Sequence[str]) -> list[int]:
    """:return: for each name in `order`, its axis in `dims`"""
    rest: list[Any] = list(dims)
    axes = []
    for name in order:
        assert name in rest, f"the dims are {tuple(dims)}, expected {tuple(order)}"
        axes.append(rest.index(name))
        rest[axes[-1]] = None
    return axes


def run_reference(case: OpCase, seed: int, *, variant: Variant | None = None, float_dtype: str = "float32") -> Result:
    """:return: what the reference gives"""
    with compute_by_reference():
        return run_numpy(case, seed, variant=variant, float_dtype=float_dtype)


def run_numpy(
    case: OpCase, seed: int, *, layout: int = 0, variant: Variant | None = None, float_dtype: str = "float32"
) -> Result:
    """:return: what the numpy backend gives"""
    with rf.backend_ctx("numpy"), rf.set_default_float_dtype_ctx(float_dtype):
        inputs = Inputs(case, seed, lambda value, dims: value, layout=layout, variant=variant, float_dtype=float_dtype)
        return Result([describe(x, lambda raw: raw) for x in outputs_of(case, inputs)])


@functools.lru_cache(maxsize=1000)
def reference(case: OpCase, seed: int) -> Result:
    """:return: what the backends are compared with: the reference; PyTorch for what it cannot do"""
    if "numpy" in case.backends:
        return run_reference(case, seed)
    return run_torch(case, seed, layout=0, with_gradients=False)


def run_template(case: OpCase, seed: int, *, layout: int = 0) -> Result:
    """:return: dims and dtypes alone"""
    with rf.backend_ctx("template"):
        inputs = Inputs(case, seed, lambda value, dims: None, layout=layout)
        outputs = outputs_of(case, inputs)
        assert all(x.raw_tensor is None for x in outputs), f"operations on templates have no values: {outputs}"
        return Result([describe(x) for x in outputs])


def run_torch(
    case: OpCase,
    seed: int,
    *,
    layout: int | None = None,
    variant: Variant | None = None,
    with_gradients: bool = True,
    float_dtype: str = "float32",
) -> Result:
    """:return: values, and gradients if the case has them"""

    def raw(value: numpy.ndarray, dims: Sequence[Dim]) -> torch.Tensor:
        return torch.tensor(value, requires_grad=value.dtype.kind == "f")

    layout = EVAL_LAYOUT["torch"] if layout is None else layout
    with rf.backend_ctx("torch"), rf.set_default_float_dtype_ctx(float_dtype):
        inputs = Inputs(case, seed, raw, layout=layout, variant=variant, float_dtype=float_dtype)
        outputs = outputs_of(case, inputs)
        result = Result([describe(x, _from_torch) for x in outputs])
    is_whole_batch = variant is None or variant.entry is None
    if with_gradients and case.differentiable and not case.random and is_whole_batch:
        terms = [
            torch.sum(torch.where(torch.tensor(mask), _torch_real(x.raw_tensor), 0.0) * torch.tensor(weights))
            for x, mask, weights in loss_terms(case, seed, outputs)
            if x.raw_tensor.requires_grad
        ]
        raws = [x.raw for x in float_inputs(inputs)]
        gradients = torch.autograd.grad(sum(terms), raws, allow_unused=True) if terms else [None] * len(raws)
        result.gradients = all_gradients(inputs, gradients, _from_torch)
    return result


class TFRuns:
    """Cases in one graph, each with several fed values. Making sessions takes long, so there is one for all."""

    def __init__(self, cases: Sequence[OpCase], seed: int, *, float_dtype: str = "float32") -> None:
        self._seed = seed
        self._graph = tf.Graph()
        self._built: dict[str, _BuiltTF | Exception] = {}
        with self._graph.as_default(), rf.backend_ctx("tf"), rf.set_default_float_dtype_ctx(float_dtype):
            for case in cases:
                try:
                    with tf.name_scope(re.sub(r"\W", "_", case.name)):
                        self._built[case.name] = _build_tf(case, seed, float_dtype)
                except Exception as exc:  # noqa: BLE001 - the test of the case raises it
                    self._built[case.name] = exc
        options = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
        options.graph_options.rewrite_options.disable_meta_optimizer = True
        self._session = tf.compat.v1.Session(graph=self._graph, config=options)
        self._results: dict[Variant, dict[str, Result]] = {}

    def result(self, case: OpCase, variant: Variant) -> Result:
        """
        :return: of the case with these values
        :raises Exception: what the case raised
        """
        built = self._built[case.name]
        if isinstance(built, Exception):
            raise built
        if variant.entry is not None and not built.any_batch_size:
            raise LookupError("the batch size is part of the graph")
        known = self._results.setdefault(variant, self._run_all(variant) if variant not in self._results else {})
        return known[case.name] if case.name in known else self._run([built], variant)[case.name]

    def _run_all(self, variant: Variant) -> dict[str, Result]:
        """:return: all cases at once; nothing if one of them fails"""
        all_built = [b for b in self._built.values() if isinstance(b, _BuiltTF) and _has_entry(b, variant)]
        try:
            return self._run(all_built, variant)
        except tf.errors.OpError:
            return {}

    def _run(self, all_built: Sequence[_BuiltTF], variant: Variant) -> dict[str, Result]:
        feed = self._feed(variant)
        initializer = {b.case.name: b.initializer for b in all_built if b.initializer is not None}
        self._session.run(initializer, feed)
        is_whole_batch = variant.entry is None  # the gradients are made for this
        fetched = self._session.run(
            {b.case.name: (b.arrays, b.gradients if is_whole_batch else {}) for b in all_built}, feed
        )
        results = {}
        for built in all_built:
            arrays, gradients = fetched[built.case.name]
            results[built.case.name] = Result(
                [dataclasses.replace(value, **known) for value, known in zip(built.values, arrays, strict=True)],
                all_gradients(built.inputs, [gradients.get(i) for i in range(built.num_floats)], lambda x: x),
            )
        return results

    def _feed(self, variant: Variant) -> dict[tf.Tensor, numpy.ndarray]:
        """:return: for all cases: a loop or condition waits for all that was assigned in the graph before it"""
        feed = {}
        for built in self._built.values():
            if isinstance(built, _BuiltTF):
                own = variant if _has_entry(built, variant) else Variant()
                feed.update({x.raw: x.value_of(own) for x in built.inputs.inputs})
        return feed


@dataclass
class _BuiltTF:
    case: OpCase
    inputs: Inputs
    values: list[Value]  # with raw tensors in place of arrays
    arrays: list[dict[str, Any]]
    gradients: dict[int, Any]
    num_floats: int
    any_batch_size: bool
    initializer: Any


def _build_tf(case: OpCase, seed: int, float_dtype: str) -> _BuiltTF:
    def placeholder(value: numpy.ndarray, dims: Sequence[Dim]) -> tf.Tensor:
        return tf.compat.v1.placeholder(value.dtype, [dim.size for dim in dims])

    num_variables = len(tf.compat.v1.global_variables())
    inputs = Inputs(case, seed, placeholder, layout=EVAL_LAYOUT["tf"], float_dtype=float_dtype)
    outputs = outputs_of(case, inputs)
    variables = tf.compat.v1.global_variables()[num_variables:]
    raws = [x.raw for x in float_inputs(inputs)]
    gradients: Sequence[Any] = [None] * len(raws)
    if case.differentiable and not case.random and raws and float_dtype == "float32":
        terms = [
            tf.reduce_sum(tf.where(mask, _tf_real(x.raw_tensor), tf.zeros([], x.dtype)) * weights)
            for x, mask, weights in loss_terms(case, seed, outputs)
        ]
        if terms:
            gradients = tf.gradients(tf.add_n([tf.cast(t, tf.float32) for t in terms]), raws)
    values = [describe(x, tf.identity) for x in outputs]
    return _BuiltTF(
        case,
        inputs,
        values,
        arrays=[{"array": x.array, "sizes": x.sizes, "lengths": x.lengths} for x in values],
        gradients={i: tf.convert_to_tensor(g) for i, g in enumerate(gradients) if g is not None},
        num_floats=len(raws),
        any_batch_size=inputs.any_batch_size,
        initializer=tf.compat.v1.variables_initializer(variables) if variables else None,
    )


def outputs_of(case: OpCase, inputs: Inputs) -> list[Tensor]:
    """:return: the tensors that the case returns, with the newest defaults: padded frames are left out"""
    BehaviorVersion.set(30)
    return list(_tensors(case.run(inputs)))


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Dim):
        if value.size is None:
            yield value.get_size_tensor()
    elif isinstance(value, Mapping):
        for key in sorted(value):
            yield from _tensors(value[key])
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _tensors(item)
    else:
        assert value is None or isinstance(value, (int, float, str)), f"a case cannot return {value!r}"


def describe(x: Tensor, to_numpy: Callable[[Any], numpy.ndarray] | None = None) -> Value:
    """
    :param x: output
    :param to_numpy: raw tensor -> array; None for a template
    """
    names = [dim_name(d) for d in x.dims]
    value = Value(
        tuple(names),
        x.dtype,
        None if x.sparse_dim is None else dim_name(x.sparse_dim),
        None if x.feature_dim is None else dim_name(x.feature_dim),
    )
    if to_numpy is None:
        return value
    assert x.raw_tensor is not None, f"{x} has no value"
    value.array = to_numpy(x.raw_tensor)
    for dim, name in zip(x.dims, names, strict=True):
        lengths = dim.dyn_size_ext
        if dim.size is None:
            assert lengths is not None, f"{x}: the lengths of {dim} are not known"
            assert lengths.raw_tensor is not None, f"{x}: the lengths of {dim} have no value"
            value.lengths[name] = to_numpy(lengths.raw_tensor)
            value.lengths_dims[name] = tuple(map(dim_name, lengths.dims))
    value.sizes = tuple(to_numpy(dim.get_dim_value()) for dim in x.dims)
    return value


def dim_name(dim: Dim) -> str:
    """:return: the name without sizes, which is the same on all backends and for each part of a batch"""
    text = dim.short_repr()
    while True:
        shorter = re.sub(r"\[[^][]*\]|\(\d+\)", "", text)
        if shorter == text:
            return text
        text = shorter


def _from_torch(x: Any) -> numpy.ndarray:
    return x.detach().resolve_conj().cpu().numpy() if isinstance(x, torch.Tensor) else numpy.asarray(x)


def _torch_real(x: torch.Tensor) -> torch.Tensor:
    return x.real + 2 * x.imag if x.is_complex() else x


def _tf_real(x: tf.Tensor) -> tf.Tensor:
    return tf.math.real(x) + 2 * tf.math.imag(x) if x.dtype.is_complex else x


def _has_entry(built: _BuiltTF, variant: Variant) -> bool:
    entry = variant.entry
    return entry is None or (built.any_batch_size and built.case.per_sequence and entry < built.inputs.batch_size)


def float_inputs(inputs: Inputs) -> list[Any]:
    return [x for x in inputs.inputs if x.tensor is not None and x.tensor.dtype.startswith("float")]


def loss_terms(
    case: OpCase, seed: int, outputs: Sequence[Tensor]
) -> Iterator[tuple[Tensor, numpy.ndarray, numpy.ndarray]]:
    """:return: float outputs; their valid frames; a weight for each entry, the same for each backend and layout"""
    for i, (x, expected) in enumerate(zip(outputs, reference(case, seed).values, strict=True)):
        if not x.dtype.startswith(("float", "complex")) or not numpy.asarray(expected.array).size:
            continue
        order = axis_order(expected.dims, [dim_name(d) for d in x.dims])
        weights = numpy.random.RandomState((seed, i)).normal(size=numpy.shape(expected.array))
        dtype = {"complex64": "float32", "complex128": "float64"}.get(x.dtype, x.dtype)
        finite = numpy.isfinite(numpy.asarray(expected.array))
        yield x, (expected.mask() & finite).transpose(order), weights.transpose(order).astype(dtype)


def all_gradients(
    inputs: Inputs, gradients: Sequence[Any], to_numpy: Callable[[Any], numpy.ndarray]
) -> list[numpy.ndarray | None]:
    """:return: for each input of the case its gradient, with the axes in the order that the case named"""
    rest = iter(gradients)
    result: list[numpy.ndarray | None] = []
    for x in inputs.inputs:
        if x.tensor is None or not x.tensor.dtype.startswith("float"):
            result.append(None)
            continue
        gradient = next(rest)
        assert x.mask is not None
        result.append(numpy.zeros(x.mask.shape) if gradient is None else to_numpy(gradient).transpose(x.canonical))
    return result
