"""Random values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.no_sources import NoSourcesLayer
from returnn.tf.layers.core.option_values import value_of
from returnn.tf.layers.values.variables import VariableLayer
from returnn.tf.util.parameters.random_state import ALGORITHMS, read_and_move_on, state_size
from returnn.util.errors import ConfigError, check_known

Number = int | float


class RandomLayer(NoSourcesLayer):
    """
    Random values; inside of a loop, new ones in each frame.

    Output: the dims in `shape`.
    """

    layer_class = "random"

    def __init__(
        self,
        shape: Sequence[Dim | int],
        distribution: str,
        mean: Number | LayerBase | None = None,
        stddev: Number | LayerBase | None = None,
        bound: Number | LayerBase | None = None,
        minval: Number | LayerBase | None = None,
        maxval: Number | LayerBase | None = None,
        dtype: str = "float32",
        sparse_dim: Dim | None = None,
        feature_dim: Dim | None = None,
        seed: int | Sequence[int] | numpy.ndarray | None = None,
        algorithm: str | None = None,
        explicit_state: LayerBase | None = None,
        auto_update_state: bool | None = None,
        static: bool | None = None,
        shape_deps: Sequence[LayerBase] = (),
        stop_grad: bool = False,
        **kwargs: Any,
    ) -> None:
        """
        :param shape: dims or sizes
        :param distribution: "uniform", "normal", "truncated_normal"
        :param mean: of a normal distribution
        :param stddev: standard deviation of a normal distribution
        :param bound: uniform in [-bound, bound)
        :param minval: uniform in [minval, maxval)
        :param maxval: see `minval`
        :param dtype: of the values
        :param sparse_dim: the values are labels of this dim
        :param feature_dim: one of the dims
        :param seed: number or numbers. With `static`, the same seed gives the same values
        :param algorithm: of the generator: "philox", the default. TensorFlow has "three-fry" only where XLA compiles
        :param explicit_state: layer with the state of the random generator, see "random_state_init"
        :param auto_update_state: change that state; it has to be a variable then. Default: if it is one
        :param static: the same values in each step, they only depend on the seed
        :param shape_deps: layers that dims in `shape` depend on
        :param stop_grad: there is no gradient
        """
        super().__init__(**kwargs)
        check_known("distribution", distribution, ("uniform", "normal", "truncated_normal"), where=self.where())
        if explicit_state is None and auto_update_state is not None:
            raise ConfigError(f"{self.where()}: 'auto_update_state' is about an 'explicit_state'.")
        if static and explicit_state is not None:
            raise ConfigError(f"{self.where()}: the options 'static' and 'explicit_state' exclude each other.")
        if static and seed is None:
            raise ConfigError(f"{self.where()}: the option 'static' needs a 'seed'.")
        self.shape = shape
        self.distribution = distribution
        self.limits = {"mean": mean, "stddev": stddev, "bound": bound, "minval": minval, "maxval": maxval}
        self.dtype = dtype
        self.sparse_dim = sparse_dim
        self.feature_dim = feature_dim
        self.seed = seed
        self.algorithm = None if algorithm is None else _known_algorithm(algorithm, self.where())
        self.explicit_state = explicit_state
        self.auto_update_state = auto_update_state
        self.static = static
        self.shape_deps = shape_deps
        self.stop_grad = stop_grad

    def compute(self, *_sources: Tensor) -> Tensor:
        """:return: [shape]"""
        dims = self.dims_of_shape(self.shape, last_is_feature=False)
        limits = {name: value_of(limit) for name, limit in self.limits.items()}
        state = self._state(dims)
        seed = None if state is not None else self.network.random_seed() if self.seed is None else self.seed
        output = rf.random(
            dims,
            dtype=self.dtype,
            sparse_dim=self.sparse_dim,
            distribution=self.distribution,
            seed=seed,
            algorithm=self.algorithm,
            explicit_state=state,
            auto_update_state=None if state is None else False,
            static=self.static,
            **limits,
        )
        if self.feature_dim is not None:
            output = output.copy_with_roles(feature_dim=self.feature_dim)
        return rf.stop_gradient(output) if self.stop_grad else output

    def must_be_in_loop(self) -> str:
        """:return: why it has to be inside of a loop"""
        is_same = self.static or (self.explicit_state is not None and self._state_variable() is None)
        return "" if is_same else "is random in each frame"

    def _state(self, dims: list[Dim]) -> Tensor | None:
        """:return: [state], of the generator"""
        if self.explicit_state is None:
            return None
        state = self.explicit_state.output
        variable = self._state_variable()
        if state.raw_tensor is None or variable is None:
            return state
        state = state.copy()
        num_values = tf.reduce_prod([tf.cast(dim.get_dim_value(), tf.int64) for dim in dims])
        state.raw_tensor = read_and_move_on(variable, self.algorithm or "philox", num_values)
        return state

    def _state_variable(self) -> tf.Variable | None:
        """:return: variable with the state, which is changed; None if it stays as it is"""
        is_variable = isinstance(self.explicit_state, VariableLayer)
        update = is_variable if self.auto_update_state is None else self.auto_update_state
        if not update:
            return None
        if not is_variable:
            raise ConfigError(
                f"{self.where()}: 'auto_update_state': {self.explicit_state} is no layer of class 'variable'."
            )
        assert isinstance(self.explicit_state, VariableLayer)
        return self.explicit_state.variable()


class RandIntLayer(NoSourcesLayer):
    """
    Random integers, uniform in [minval, maxval); inside of a loop, new ones in each frame.

    Output: the dims in `shape`.
    """

    layer_class = "rand_int"

    def __init__(
        self,
        shape: Sequence[Dim | int],
        maxval: int | LayerBase,
        minval: int | LayerBase = 0,
        dtype: str = "int32",
        sparse_dim: Dim | None = None,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param shape: dims or sizes
        :param maxval: no value reaches this
        :param minval: smallest value
        :param dtype: of the values
        :param sparse_dim: the values are labels of this dim
        :param seed: of the generator
        """
        super().__init__(**kwargs)
        self.shape = shape
        self.maxval = maxval
        self.minval = minval
        self.dtype = dtype
        self.sparse_dim = sparse_dim
        self.seed = seed

    def compute(self, *_sources: Tensor) -> Tensor:
        """:return: [shape]"""
        dims = self.dims_of_shape(self.shape, last_is_feature=False)
        low, high = value_of(self.minval), value_of(self.maxval)
        seed = self.network.random_seed() if self.seed is None else self.seed
        return rf.random_uniform(dims, minval=low, maxval=high, dtype=self.dtype, seed=seed, sparse_dim=self.sparse_dim)

    def must_be_in_loop(self) -> str:
        """:return: why it has to be inside of a loop"""
        return "is random in each frame"


class RandomStateInitLayer(NoSourcesLayer):
    """
    A state for a random generator, for the option `explicit_state` of the layer "random"; or for a variable.

    Output [state], int64.
    """

    layer_class = "random_state_init"

    def __init__(
        self,
        algorithm: str | None = None,
        seed: int | Sequence[int] | numpy.ndarray | None = None,
        out_dim: Dim | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param algorithm: "philox", the default; "three-fry", whose state is smaller, see the layer "random"
        :param seed: number or numbers. Default: a new one from the seed of the network
        :param out_dim: dim of the output
        """
        super().__init__(out_dim=out_dim, **kwargs)
        self.algorithm = _known_algorithm(algorithm, self.where())
        self.seed = seed

    @classmethod
    def select_algorithm(cls, algorithm: str | None) -> str:
        """:return: name of the algorithm; the default if None"""
        return _known_algorithm(algorithm, "layer class 'random_state_init'")

    def compute(self, *_sources: Tensor) -> Tensor:
        """:return: [state]"""
        size = state_size(self.algorithm)
        dim = self._out_dim if self._out_dim is not None else self.new_dim("state", size, kind=Dim.Types.Feature)
        if dim.dimension is None:
            dim.declare_same_as(self.new_dim("state", size, kind=Dim.Types.Feature))
        if dim.dimension != size:
            raise ConfigError(f"{self.where()}: the state has size {size}, 'out_dim' is {dim}.")
        seed = self.network.random_seed() if self.seed is None else self.seed
        values = numpy.random.SeedSequence(seed).generate_state(size, dtype="uint64").view("int64")
        values[: size - 1] = 0  # the counter; the key is behind it
        return rf.convert_to_tensor(values, dims=[dim], dtype="int64")


def _known_algorithm(algorithm: str | None, where: str) -> str:
    """:return: name of the algorithm; the default if None"""
    if algorithm in (None, "auto-select", "auto_select"):
        return "philox"
    check_known("algorithm", algorithm, ALGORITHMS, where=where)
    return algorithm
