"""Parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from returnn.frontend.parameter import Parameter
    from returnn.tensor import Dim, Tensor


class ParameterOps:
    """How parameters are made, and changed in place."""

    @staticmethod
    def create_parameter_raw(tensor: Parameter, *, device: str | None = None) -> Any:
        """:return: raw parameter, with the initial value of `tensor`; None for a template"""
        raise NotImplementedError

    @staticmethod
    def set_parameter_initial_value(param: Parameter, value: Tensor | Any) -> None:
        """
        :param param: its raw parameter exists already
        :param value: tensor, or a number for all entries
        """
        raise NotImplementedError

    @staticmethod
    def set_parameter_trainable(param: Parameter, trainable: bool) -> None:
        """
        :param param: its raw parameter exists already
        :param trainable: whether the optimizer updates it
        """
        raise NotImplementedError

    @staticmethod
    def parameter_assign(param: Parameter, value: Tensor, *, op: str = "assign") -> None:
        """
        :param param: is changed in place
        :param value: its dims are among those of the parameter
        :param op: "assign" or "add"
        """
        raise NotImplementedError

    @staticmethod
    def parameter_assign_key(
        param: Parameter,
        key: Any,
        value: Tensor,
        *,
        op: str = "assign",
        axis: Dim | Sequence[Dim] | None = None,
        key_dim: Dim | Sequence[Dim | None] | None = None,
    ) -> None:
        """
        `param[key] = value`, see `returnn.frontend.parameter.Parameter.assign_key`.

        :param param: is changed in place
        :param key: number, tensor of indices, or slice; one for each of `axis`
        :param value: dims of the parameter without `axis`, and those of the keys
        :param op: "assign" or "add"
        :param axis: which axes the keys are for; None: the sparse dims of the keys
        :param key_dim: for each key that is a slice, the dim of what it cuts out
        """
        raise NotImplementedError

    @staticmethod
    def parameter_move_to(param: Parameter, *, device: str | None = None, dtype: str | None = None) -> None:
        """
        Moves a parameter, which stays the same object, but can get a new raw parameter.

        :param device: such as "cpu"; None: leave it
        :param dtype: None: leave it
        """
        raise NotImplementedError
