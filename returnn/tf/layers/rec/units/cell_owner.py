"""What a unit needs of a layer, for a cell that a user calls on raw tensors without one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from returnn.frontend import get_default_float_dtype, get_run_ctx
from returnn.tensor import Dim, Tensor
from returnn.tf.frontend_low_level.outermost_graph import outermost_graph
from returnn.tf.util.parameters.initializers import get_initializer
from returnn.tf.util.parameters.param_split import parts_of_dim, set_param_axes_split_info

tf1 = tf.compat.v1


class CellOwner:
    """In place of a layer: makes parameters in the current variable scope. The `network` is the same object."""

    back_prop = None

    def __init__(self, unit: str) -> None:
        """
        :param unit: name of the class
        """
        self.unit = unit
        self._dims: dict[str, Dim] = {}
        self._num_seeds = 0

    @property
    def network(self) -> CellOwner:
        """For random values and the train flag."""
        return self

    def where(self) -> str:
        """:return: for error messages"""
        return self.unit

    def new_dim(self, key: str, size: int, **options: Any) -> Dim:
        """:return: dim under this key"""
        return self._dims.setdefault(key, Dim(size, name=f"{self.unit}:{key}", **options))

    def parts_of(self, dim: Dim) -> list[int] | None:
        """:return: sizes of the parts of a dim; nothing is known of the input"""
        return parts_of_dim(dim)

    def parameter(
        self,
        name: str,
        dims: Sequence[Dim],
        *,
        initial: Any = "glorot_uniform",
        trainable: bool | None = None,
        axes_split_info: Any = None,
    ) -> Tensor:
        """:return: parameter in the current variable scope"""
        shape = [dim.dimension for dim in dims]
        with outermost_graph():
            variable = tf1.get_variable(
                name,
                shape=shape,
                dtype=get_default_float_dtype(),
                trainable=trainable is not False,
                use_resource=True,
                initializer=get_initializer(initial, dtype=get_default_float_dtype()),
            )
        set_param_axes_split_info(variable, axes_split_info or [None] * len(shape))
        return Tensor(name, dims=dims, dtype=variable.dtype.base_dtype.name, raw_tensor=variable)

    def random_seed(self) -> int:
        """:return: another one in each call"""
        self._num_seeds += 1
        return self._num_seeds

    def cond_on_train(self, fn_train: Callable[[], Any], fn_eval: Callable[[], Any]) -> Any:
        """:return: fn_train() in training, fn_eval() otherwise"""
        is_training = get_run_ctx().is_train_flag_enabled(func=None)
        if isinstance(is_training, bool):
            return fn_train() if is_training else fn_eval()
        return tf.cond(is_training.raw_tensor, fn_train, fn_eval)
