"""The update of all parameters in a training step, and the optimizers."""

from returnn.tf.optimizers.accumulate import accum_grad_multiple_step
from returnn.tf.optimizers.adam import (
    AMSGradOptimizer,
    CustomAdamOptimizer,
    GradVarianceScaledOptimizer,
    NadamOptimizer,
)
from returnn.tf.optimizers.base import Optimizer
from returnn.tf.optimizers.gradient_descent import (
    BaseCustomOptimizer,
    CustomGradientDescentOptimizer,
    NeuralOptimizer1,
    NormalizedSGD,
)
from returnn.tf.optimizers.keras_options import KerasOptimizer
from returnn.tf.optimizers.registry import get_optimizer_class, register_optimizer_class
from returnn.tf.updater.updater import Updater

__all__ = [
    "AMSGradOptimizer",
    "BaseCustomOptimizer",
    "CustomAdamOptimizer",
    "CustomGradientDescentOptimizer",
    "GradVarianceScaledOptimizer",
    "KerasOptimizer",
    "NadamOptimizer",
    "NeuralOptimizer1",
    "NormalizedSGD",
    "Optimizer",
    "Updater",
    "accum_grad_multiple_step",
    "get_optimizer_class",
    "register_optimizer_class",
]
