"""Parameters that training changes in another way than by their gradient."""

from __future__ import annotations

import tensorflow as tf


class CustomUpdate:
    """How training changes a parameter. The updater calls `update_var`, instead of using the gradient."""

    def set_on_var(self, var: tf.Variable) -> None:
        """
        :param var: is changed in this way from now on
        """
        var.returnn_custom_update = self

    @staticmethod
    def of_var(var: tf.Variable) -> CustomUpdate | None:
        """:return: how training changes the variable, None: by its gradient"""
        update: CustomUpdate | None = getattr(var, "returnn_custom_update", None)
        return update

    def update_var(self, var: tf.Variable) -> tf.Operation:
        """
        :param var: the parameter
        :return: operation that changes it
        """
        raise TypeError(f"{type(self).__name__} defines no update")


class CustomUpdateExpAverage(CustomUpdate):
    """Exponential running average."""

    def __init__(self, average: tf.Tensor, alpha: float) -> None:
        """
        :param average: of this batch
        :param alpha: how much of it goes into the parameter
        """
        self.average = average
        self.alpha = alpha

    def update_var(self, var: tf.Variable) -> tf.Operation:
        """:return: var += alpha * (average - var)"""
        return var.assign_add(self.alpha * (self.average - var), read_value=False)
