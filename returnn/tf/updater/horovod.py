"""Training of one model in several processes with Horovod: the part that concerns the update."""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from returnn.config import Config
from returnn.tf.optimizers.base import Gradient
from returnn.util.optional_import import import_optional


@dataclass(frozen=True)
class HorovodOptions:
    """:param reduces_gradients: False: processes exchange parameters from time to time instead"""

    is_used: bool = False
    reduces_gradients: bool = True
    averages_gradients: bool = False
    scales_learning_rate: bool = False

    @classmethod
    def from_config(cls, config: Config) -> HorovodOptions:
        """:return: from `use_horovod`, `horovod_reduce_type`, `horovod_avg_grad`, `horovod_scale_lr`"""
        if not config.options.use_horovod:
            return cls()
        return cls(
            is_used=True,
            reduces_gradients=config.options.horovod_reduce_type == "grad",
            averages_gradients=config.options.horovod_avg_grad,
            scales_learning_rate=config.options.horovod_scale_lr,
        )

    def reduce(self, grad: Gradient) -> Gradient:
        """:return: sum or mean of the gradient over all processes, if they exchange gradients"""
        if not (self.is_used and self.reduces_gradients):
            return grad
        horovod = import_optional("horovod.tensorflow", needed_for="use_horovod")
        return horovod.allreduce(grad, op=horovod.Average if self.averages_gradients else horovod.Sum)

    def scale_learning_rate(self, learning_rate: tf.Tensor) -> tf.Tensor:
        """:return: times the number of processes, if that is asked for"""
        if not (self.is_used and self.scales_learning_rate):
            return learning_rate
        return learning_rate * import_optional("horovod.tensorflow", needed_for="use_horovod").size()
