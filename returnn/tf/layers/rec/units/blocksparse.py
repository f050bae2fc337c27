"""Units with block-sparse weights (Gray et al. 2017), whose kernels only exist for GPUs, in a package of their own."""

from __future__ import annotations

from typing import Any, ClassVar

from returnn.tf.layers.rec.units.base import RecUnit
from returnn.util.errors import ConfigError


class BlocksparseCell(RecUnit):
    """Base class. There are no kernels for it."""

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
            "for today's TensorFlow.\n  Possible: 'nativelstm2', with dense weights."
        )


class BlocksparseLSTMCell(BlocksparseCell):
    """LSTM with block-sparse weights. Not available, see the error."""


class BlocksparseMultiplicativeMultistepLSTMCell(BlocksparseCell):
    """Multiplicative LSTM of several steps with block-sparse weights. Not available, see the error."""
