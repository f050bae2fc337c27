"""What a random network is made of while it grows: shapes of layers, and the rules of the grammar."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from random import Random
from typing import Any

from returnn.tf.util.data import FeatureDim, SpatialDim

SIZES = (2, 4, 6, 8, 9)
WEIGHTS = (
    "glorot_uniform",
    "constant_initializer(0.0)",
    "random_normal_initializer(mean=0.0, stddev=0.1)",
    "variance_scaling_initializer(mode='fan_in', distribution='uniform', scale=0.78)",
)
ACTIVATIONS = (
    None, "relu", "tanh", "sigmoid", "exp", "cos", "sin", "swish", "gelu", "selu", "softplus", "leaky_relu", "square",
    "abs", "safe_exp", "elu", "relu6", "softsign", "identity",
)  # fmt: skip
UNITS = (
    "lstm", "nativelstm2", "NativeLstm2", "standardlstm", "basiclstm", "lstmblock", "lstmp", "gru", "vanillalstm",
    "basicrnn", "rhn",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Shape:
    """The dims of a layer, beside the batch: by role, in the order of static ones."""

    time: str | None = "time"  # which sequences
    static: tuple[int, ...] = ()  # further static dims, before the feature dim
    feature: int | None = None
    sparse: int | None = None
    dtype: str = "float32"
    batch: bool = True

    @property
    def is_dense(self) -> bool:
        """Whether it is made of floats and has a feature dim."""
        return self.batch and self.dtype == "float32" and self.feature is not None

    @property
    def is_frames(self) -> bool:
        """Whether it is [B, T, F]."""
        return self.is_dense and self.time is not None and not self.static

    @property
    def is_vector(self) -> bool:
        """Whether it is [B, F]."""
        return self.is_dense and self.time is None and not self.static


@dataclasses.dataclass
class Net:
    """What is there of a network, and how it goes on."""

    random: Random
    version: int | None
    extern_data: dict[str, Any] = dataclasses.field(default_factory=dict)
    shapes: dict[str, Shape] = dataclasses.field(default_factory=dict)
    layers: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    dims: dict[str, tuple[str, Any]] = dataclasses.field(default_factory=dict)
    counts: dict[str, int] = dataclasses.field(default_factory=dict)
    train: bool = False

    def chance(self, p: float) -> bool:
        """:return: True with that probability"""
        return self.random.random() < p

    def pick(self, accept: Callable[[Shape], bool]) -> str | None:
        """:return: some layer with such a shape"""
        names = [name for name, shape in self.shapes.items() if accept(shape)]
        if not names:
            return None
        return self.random.choice(names[-4:] + names)

    def add(self, prefix: str, layer: dict[str, Any], shape: Shape | None) -> str:
        """:return: name of the layer, which can be used further if it has a shape"""
        self.counts[prefix] = self.counts.get(prefix, 0) + 1
        name = f"{prefix}{self.counts[prefix]}"
        self.layers[name] = layer
        if shape is not None:
            self.shapes[name] = shape
        return name

    def new_dim(self, name: str, size: int | None, kind: str = "FeatureDim") -> Any:
        """:return: a dim to be declared in the config"""
        self.counts[name] = self.counts.get(name, 0) + 1
        name = f"{name}{self.counts[name]}"
        return (FeatureDim if kind == "FeatureDim" else SpatialDim)(name, size)

    def size(self) -> int:
        """:return: some size of a feature dim"""
        return self.random.choice(SIZES)

    def maybe(self, options: dict[str, Any], p: float = 0.3) -> dict[str, Any]:
        """:return: some of the options; where a value is a list, one of it"""
        return {
            key: self.random.choice(value) if isinstance(value, list) else value
            for key, value in options.items()
            if self.chance(p)
        }

    def out_option(self, size: int) -> dict[str, Any]:
        """:return: the option that says how large the output is"""
        return {"out_dim": self.new_dim("feat", size)} if self.chance(0.2) else {"n_out": size}

    def linear_options(self) -> dict[str, Any]:
        """:return: options of layers with weights"""
        return self.maybe(
            {
                "forward_weights_init": list(WEIGHTS),
                "trainable": False,
                "dropout": 0.0,
                "L2": 0.01,
                "with_bias": [True, False],
            },
            0.12,
        )


Production = Callable[[Net], bool]
PRODUCTIONS: list[tuple[int, Production]] = []


def production(weight: int = 2) -> Callable[[Production], Production]:
    """:return: decorator: a rule of the grammar, taken that often"""

    def register(function: Production) -> Production:
        PRODUCTIONS.append((weight, function))
        return function

    return register


def changed(shape: Shape, **changes: Any) -> Shape:
    """:return: the same but for the changes"""
    return dataclasses.replace(shape, **changes)


def is_dense(shape: Shape) -> bool:
    """:return: whether the layer can be used where these are needed"""
    return shape.is_dense


def is_frames(shape: Shape) -> bool:
    """:return: whether the layer can be used where these are needed"""
    return shape.is_frames


def has_time(shape: Shape) -> bool:
    """:return: whether the layer can be used where these are needed"""
    return shape.batch and shape.time is not None
