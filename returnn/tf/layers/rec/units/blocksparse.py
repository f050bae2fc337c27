"""
Units with block-sparse weights (Gray et al. 2017): of a matrix, only some blocks are not 0, always the same ones.

The kernels of the package `blocksparse` do not exist for today's TensorFlow. Here, a matrix is masked, and the kernels
of `returnn.native` compute only with what can be other than 0. In loops, and without these kernels, it takes as long as
a dense matrix.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy
import tensorflow as tf

from returnn.tensor import Dim, Tensor
from returnn.tf.frontend_low_level.kernels.native import get_operations, has_operations
from returnn.tf.layers.rec.units.base import RecUnit, outside_of_loops
from returnn.tf.layers.rec.units.native_lstm import NativeLstm2
from returnn.tf.util.parameters.variables import VariableAssigner
from returnn.util.errors import ConfigError

_NUM_GATES = 4


class BlocksparseLSTMCell(NativeLstm2):
    """LSTM as "nativelstm2", with block-sparse weights. Parameters `W`, `W_re` and `b`."""

    unit_names = ("blocksparselstm",)
    cell_type: ClassVar[Any] = None  # that of the package

    has_optional_projection = False

    def __init__(
        self,
        num_units: int,
        block_size: int = 32,
        connectivity: int = 5,
        seed: int = 1,
        forget_bias: float = 0.0,
        trainable: bool = True,
        dtype: Any = None,
        dynamic: bool = False,
    ) -> None:
        """
        :param num_units: size of the output
        :param block_size: rows and columns of a block
        :param connectivity: each block of a gate is connected to so many blocks of the input, and of the output before
        :param seed: which ones these are
        :param forget_bias: added to the forget gate
        :param trainable: whether training changes the parameters
        :param dtype: only None
        :param dynamic: only False
        """
        super().__init__(num_units, forget_bias=forget_bias)
        self.block_size = block_size
        self.connectivity = connectivity
        self.seed = seed
        self.trainable = trainable
        self._variables: dict[str, Any] = {}
        self._only_possible = {"dtype": (dtype, None), "dynamic": (dynamic, False)}

    def make_parameters(self) -> None:
        """See `RecUnit.make_parameters`."""
        self.only_default(**self._only_possible)
        for option in ("block_size", "connectivity"):
            if getattr(self, option) < 1:
                where = f"{self.layer.where()}: unit 'blocksparselstm'"
                raise ConfigError(f"{where}: option {option!r} has to be at least 1, got {getattr(self, option)!r}.")
        super().make_parameters()
        assert self.weights is not None
        self.mask = self._mask(self.in_dim.dimension, self.seed)
        self.rec_mask = self._mask(self.num_units, self.seed + 1)
        masked = _masked(self.weights.raw_tensor, self.mask)
        self.weights = Tensor(self.weights.name, self.weights.dims, self.weights.dtype, raw_tensor=masked)
        self.rec_weights = _masked(self.rec_weights, self.rec_mask)

    def matmul(self, source: Tensor, weights: Tensor) -> Tensor:
        """See `RecUnit.matmul`. Of a whole sequence, only with the blocks; in a loop, packing them takes too long."""
        raw = source.raw_tensor
        if source.sparse or raw is None or _is_in_loop(raw) or not has_operations(raw.dtype):
            return super().matmul(source, weights)
        in_dim, gates = weights.dims
        others = [dim for dim in source.dims if dim != in_dim]
        raw = source.copy_compatible_to_dims_raw([*others, in_dim])
        inputs = {
            "x": tf.reshape(raw, [-1, in_dim.dimension]),
            "weights": weights.raw_tensor,
            "mask": tf.constant(self.mask, tf.uint8),
        }
        y = get_operations().call("sparse_product", inputs)["y"]
        y = tf.reshape(y, tf.concat([tf.shape(raw)[:-1], [gates.dimension]], axis=0))
        y.set_shape([*raw.shape[:-1], gates.dimension])
        return Tensor(source.name, dims=[*others, gates], dtype=source.dtype, feature_dim=gates, raw_tensor=y)

    def parameter(self, name: str, dims: Sequence[Dim], initial: Any) -> Tensor:
        """See `RecUnit.parameter`."""
        parameter = super().parameter(name, dims, initial)
        self._variables[name] = parameter.raw_tensor
        return parameter

    def load_params_from_native_lstm(self, values_dict: Mapping[str, Any], session: Any) -> None:
        """
        Takes the parameters of a unit "nativelstm2", if this is a cell that was made by hand and used. What is not in a
        block has no effect.

        :param values_dict: `W`, `W_re` and `b`
        :param session: to write them in
        :raises ConfigError: if one of them is missing
        """
        for name, param in self._variables.items():
            if name not in values_dict:
                have = sorted(values_dict)
                raise ConfigError(f"{self.layer.where()}: the native LSTM has no {name!r}, it has {have}.")
            VariableAssigner(param).assign(values_dict[name], session)

    def _mask(self, num_in: int, seed: int) -> numpy.ndarray:
        """:return: (num_in, 4 n_out), bool"""
        random = numpy.random.RandomState(seed)
        masks = [
            block_mask(num_in, self.num_units, self.block_size, self.connectivity, random) for _ in range(_NUM_GATES)
        ]
        return numpy.concatenate(masks, axis=1)


def _masked(weights: tf.Tensor | None, mask: numpy.ndarray) -> tf.Tensor | None:
    return outside_of_loops(lambda weights: weights * tf.cast(mask, weights.dtype), weights)


def _is_in_loop(x: tf.Tensor) -> bool:
    return not tf.executing_eagerly() and getattr(x.graph, "outer_graph", None) is not None


def block_mask(
    num_in: int, num_out: int, block_size: int, connectivity: int, random: numpy.random.RandomState
) -> numpy.ndarray:
    """
    :param num_in: rows. The last block has fewer, if they are no multiple of the size
    :param num_out: columns
    :param block_size: rows and columns of a block
    :param connectivity: how many blocks there are in each block of columns
    :param random: chooses them
    :return: (num_in, num_out), bool
    """
    blocks_in, blocks_out = -(-num_in // block_size), -(-num_out // block_size)
    blocks = numpy.zeros([blocks_in, blocks_out], dtype=bool)
    for column in range(blocks_out):
        blocks[random.choice(blocks_in, size=min(connectivity, blocks_in), replace=False), column] = True
    return numpy.kron(blocks, numpy.ones([block_size, block_size], dtype=bool))[:num_in, :num_out]


class BlocksparseMultiplicativeMultistepLSTMCell(RecUnit):
    """Multiplicative LSTM of several steps with block-sparse weights. Not available, see the error."""

    unit_names = ("blocksparsemultiplicativemultisteplstm",)
    cell_type: ClassVar[Any] = None
    state_names: ClassVar[tuple[str, ...]] = ("c", "h")

    def __init__(
        self, num_units: int, name: str | None = None, trainable: bool = True, dtype: Any = None, dynamic: bool = False
    ) -> None:
        """
        :param num_units: size of the output
        :param name: of the parameters' scope
        :param trainable: whether training changes the parameters
        :param dtype: of the parameters
        :param dynamic: as in TensorFlow
        :raises ConfigError: always
        """
        raise ConfigError(
            f"option 'unit': {type(self).__name__} needs the kernels of the package 'blocksparse', which do not exist "
            "for today's TensorFlow.\n  Possible: 'blocksparselstm', or 'nativelstm2' with dense weights."
        )
