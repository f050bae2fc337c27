"""Gradient descent, with momentum, with normalized gradients, and with a proximal step for L1 and L2."""

from __future__ import annotations

import tensorflow as tf

from returnn.tf.optimizers.base import Number, Optimizer


class GradientDescentOptimizer(Optimizer):
    """`var -= learning_rate * grad`."""

    optimizer_names = ("gradientdescent", "gradientdescentoptimizer")

    def __init__(self, learning_rate: Number, use_locking: bool = False, name: str = "GradientDescent"):
        super().__init__(learning_rate, use_locking, name)

    def _apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        return tf.raw_ops.ResourceApplyGradientDescent(
            var=var.handle, alpha=self._tensor("learning_rate", var), delta=grad, use_locking=self.use_locking
        )

    def _apply_sparse(self, grad: tf.IndexedSlices, var: tf.Variable) -> tf.Operation:
        step = -self._tensor("learning_rate", var) * grad.values
        return tf.raw_ops.ResourceScatterAdd(resource=var.handle, indices=grad.indices, updates=step)


class BaseCustomOptimizer(Optimizer):
    """Base of the optimizers that are the toolkit's own, and of those in a config."""

    def __init__(self, learning_rate: Number, use_locking: bool = False, name: str | None = None):
        super().__init__(learning_rate, use_locking, name)


class CustomGradientDescentOptimizer(BaseCustomOptimizer):
    """`var -= learning_rate * grad`, in plain ops: the shortest example of an optimizer."""

    optimizer_names = ("customgradientdescent", "customgradientdescentoptimizer")

    def _apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        return var.assign_sub(self._tensor("learning_rate", var) * grad, self.use_locking, read_value=False)


class NormalizedSGD(CustomGradientDescentOptimizer):
    """Gradient descent on gradients that are scaled to L2 norm 1, each variable by itself."""

    optimizer_names = ("normalizedsgd",)

    def _apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        return super()._apply_dense(tf.math.l2_normalize(grad), var)


class MomentumOptimizer(Optimizer):
    """`accum = momentum * accum + grad; var -= learning_rate * accum`. Rows without sparse gradient stay."""

    optimizer_names = ("momentum", "momentumoptimizer")

    def __init__(
        self,
        learning_rate: Number,
        momentum: Number,
        use_locking: bool = False,
        name: str = "Momentum",
        use_nesterov: bool = False,
    ):
        """
        :param momentum: share of the former step in the next one
        :param use_nesterov: `var -= learning_rate * (grad + momentum * accum)` instead
        """
        super().__init__(learning_rate, use_locking, name)
        self.momentum = momentum
        self.use_nesterov = use_nesterov

    def _create_slots(self, var: tf.Variable) -> None:
        self._slot(var, "momentum")

    def _arguments(self, var: tf.Variable) -> dict[str, object]:
        return {
            "var": var.handle,
            "accum": self._slot(var, "momentum").handle,
            "lr": self._tensor("learning_rate", var),
            "momentum": self._tensor("momentum", var),
            "use_locking": self.use_locking,
            "use_nesterov": self.use_nesterov,
        }

    def _apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        return tf.raw_ops.ResourceApplyMomentum(grad=grad, **self._arguments(var))

    def _apply_sparse(self, grad: tf.IndexedSlices, var: tf.Variable) -> tf.Operation:
        return tf.raw_ops.ResourceSparseApplyMomentum(grad=grad.values, indices=grad.indices, **self._arguments(var))


class ProximalGradientDescentOptimizer(Optimizer):
    """
    Gradient descent, then the proximal operator of L1 and L2: small weights become exactly zero.

    Duchi and Singer (2009), "Efficient Learning using Forward-Backward Splitting".
    """

    optimizer_names = ("proximalgradientdescent", "proximalgradientdescentoptimizer")

    def __init__(
        self,
        learning_rate: Number,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "ProximalGradientDescent",
    ):
        """
        :param l1_regularization_strength: factor of the L1 norm
        :param l2_regularization_strength: factor of the squared L2 norm
        """
        super().__init__(learning_rate, use_locking, name)
        self.l1_regularization_strength = l1_regularization_strength
        self.l2_regularization_strength = l2_regularization_strength

    def _arguments(self, var: tf.Variable) -> dict[str, object]:
        return {
            "var": var.handle,
            "alpha": self._tensor("learning_rate", var),
            "l1": self._tensor("l1_regularization_strength", var),
            "l2": self._tensor("l2_regularization_strength", var),
            "use_locking": self.use_locking,
        }

    def _apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        return tf.raw_ops.ResourceApplyProximalGradientDescent(delta=grad, **self._arguments(var))

    def _apply_sparse(self, grad: tf.IndexedSlices, var: tf.Variable) -> tf.Operation:
        return tf.raw_ops.ResourceSparseApplyProximalGradientDescent(
            grad=grad.values, indices=grad.indices, **self._arguments(var)
        )


class NeuralOptimizer1(BaseCustomOptimizer):
    """
    Takes a full step where the gradient has the sign of its running mean, and a small one elsewhere.

    `m = beta1 * m + (1 - beta1) * grad; var -= learning_rate * grad * f`, `f` = 1 where `sign(grad) == sign(m)`, else
    `decrease_factor`.
    Close to `grad * exp(sign(grad) * sign(m))` of Bello et al. (2017), "Neural Optimizer Search with Reinforcement
    Learning".
    """

    optimizer_names = ("neuraloptimizer1",)

    def __init__(self, beta1: float = 0.9, decrease_factor: float = 0.1, **kwargs):
        """
        :param beta1: share of the former mean in the running mean
        :param decrease_factor: of the step where gradient and mean disagree
        """
        super().__init__(**kwargs)
        self.beta1 = beta1
        self.decrease_factor = decrease_factor

    def _create_slots(self, var: tf.Variable) -> None:
        self._slot(var, "m")

    def _apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        m = self._slot(var, "m")
        mean = self._running_mean(m.read_value(), grad, "beta1", var)
        agree = tf.equal(tf.sign(grad), tf.sign(mean))
        step = tf.where(agree, grad, self._tensor("decrease_factor", var) * grad)
        return tf.group(
            m.assign(mean, self.use_locking, read_value=False),
            var.assign_sub(self._tensor("learning_rate", var) * step, self.use_locking, read_value=False),
        )
