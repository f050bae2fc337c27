"""Step sizes from the history of squared gradients: Adagrad, Adadelta, RMSProp, FTRL. Kernels of TensorFlow."""

from __future__ import annotations

import tensorflow as tf

from returnn.tf.optimizers.base import Number, Optimizer, check_range


class AdagradOptimizer(Optimizer):
    """
    `accum += grad²; var -= learning_rate * grad / sqrt(accum)`.

    Duchi et al. (2011), "Adaptive Subgradient Methods for Online Learning and Stochastic Optimization".
    """

    optimizer_names = ("adagrad", "adagradoptimizer")

    def __init__(
        self,
        learning_rate: Number,
        initial_accumulator_value: float = 0.1,
        use_locking: bool = False,
        name: str = "Adagrad",
    ):
        """:param initial_accumulator_value: of `accum` before the first step, above 0"""
        super().__init__(learning_rate, use_locking, name)
        check_range(self.name, "initial_accumulator_value", initial_accumulator_value, at_least=1e-30)
        self.initial_accumulator_value = initial_accumulator_value

    def _create_slots(self, var: tf.Variable) -> None:
        self._slot(var, "accumulator", initial=self.initial_accumulator_value)

    def _arguments(self, var: tf.Variable) -> dict[str, object]:
        return {
            "var": var.handle,
            "accum": self._slot(var, "accumulator").handle,
            "lr": self._tensor("learning_rate", var),
            "use_locking": self.use_locking,
        }

    def _apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        return tf.raw_ops.ResourceApplyAdagrad(grad=grad, **self._arguments(var))

    def _apply_sparse(self, grad: tf.IndexedSlices, var: tf.Variable) -> tf.Operation:
        return tf.raw_ops.ResourceSparseApplyAdagrad(grad=grad.values, indices=grad.indices, **self._arguments(var))


class ProximalAdagradOptimizer(AdagradOptimizer):
    """Adagrad, then the proximal operator of L1 and L2: small weights become exactly zero."""

    optimizer_names = ("proximaladagrad", "proximaladagradoptimizer")

    def __init__(
        self,
        learning_rate: Number,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "ProximalAdagrad",
    ):
        """
        :param initial_accumulator_value: of `accum` before the first step, above 0
        :param l1_regularization_strength: factor of the L1 norm
        :param l2_regularization_strength: factor of the squared L2 norm
        """
        super().__init__(learning_rate, initial_accumulator_value, use_locking, name)
        self.l1_regularization_strength = l1_regularization_strength
        self.l2_regularization_strength = l2_regularization_strength

    def _arguments(self, var: tf.Variable) -> dict[str, object]:
        return {
            **super()._arguments(var),
            "l1": self._tensor("l1_regularization_strength", var),
            "l2": self._tensor("l2_regularization_strength", var),
        }

    def _apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        return tf.raw_ops.ResourceApplyProximalAdagrad(grad=grad, **self._arguments(var))

    def _apply_sparse(self, grad: tf.IndexedSlices, var: tf.Variable) -> tf.Operation:
        return tf.raw_ops.ResourceSparseApplyProximalAdagrad(
            grad=grad.values, indices=grad.indices, **self._arguments(var)
        )


class AdadeltaOptimizer(Optimizer):
    """Zeiler (2012), "ADADELTA: An Adaptive Learning Rate Method"."""

    optimizer_names = ("adadelta", "adadeltaoptimizer")

    def __init__(
        self,
        learning_rate: Number = 0.001,
        rho: float = 0.95,
        epsilon: float = 1e-08,
        use_locking: bool = False,
        name: str = "Adadelta",
    ):
        """
        :param rho: share of the former value in the running means
        :param epsilon: keeps the root and the division away from 0
        """
        super().__init__(learning_rate, use_locking, name)
        self.rho = rho
        self.epsilon = epsilon

    def _create_slots(self, var: tf.Variable) -> None:
        self._slot(var, "accum")
        self._slot(var, "accum_update")

    def _arguments(self, var: tf.Variable) -> dict[str, object]:
        return {
            "var": var.handle,
            "accum": self._slot(var, "accum").handle,
            "accum_update": self._slot(var, "accum_update").handle,
            "lr": self._tensor("learning_rate", var),
            "rho": self._tensor("rho", var),
            "epsilon": self._tensor("epsilon", var),
            "use_locking": self.use_locking,
        }

    def _apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        return tf.raw_ops.ResourceApplyAdadelta(grad=grad, **self._arguments(var))

    def _apply_sparse(self, grad: tf.IndexedSlices, var: tf.Variable) -> tf.Operation:
        return tf.raw_ops.ResourceSparseApplyAdadelta(grad=grad.values, indices=grad.indices, **self._arguments(var))


class RMSPropOptimizer(Optimizer):
    """
    `rms = decay * rms + (1 - decay) * grad²; mom = momentum * mom + learning_rate * grad / sqrt(rms + epsilon);
    var -= mom`. Tieleman and Hinton (2012), lecture 6.5 of "Neural Networks for Machine Learning".
    """

    optimizer_names = ("rmsprop", "rmspropoptimizer")

    def __init__(
        self,
        learning_rate: Number,
        decay: float = 0.9,
        momentum: float = 0.0,
        epsilon: float = 1e-10,
        use_locking: bool = False,
        centered: bool = False,
        name: str = "RMSProp",
    ):
        """
        :param decay: share of the former value in the running mean of squares
        :param momentum: share of the former step in the next one
        :param epsilon: keeps the division away from 0
        :param centered: divide by the standard deviation instead of the root of the mean of squares
        """
        super().__init__(learning_rate, use_locking, name)
        self.decay = decay
        self.momentum = momentum
        self.epsilon = epsilon
        self.centered = centered

    def _create_slots(self, var: tf.Variable) -> None:
        self._slot(var, "rms", initial=1.0)
        if self.centered:
            self._slot(var, "mg")
        self._slot(var, "momentum")

    def _arguments(self, var: tf.Variable) -> dict[str, object]:
        centered = {"mg": self._slot(var, "mg").handle} if self.centered else {}
        return {
            "var": var.handle,
            "ms": self._slot(var, "rms").handle,
            "mom": self._slot(var, "momentum").handle,
            "lr": self._tensor("learning_rate", var),
            "rho": self._tensor("decay", var),
            "momentum": self._tensor("momentum", var),
            "epsilon": self._tensor("epsilon", var),
            "use_locking": self.use_locking,
            **centered,
        }

    def _apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        kernel = tf.raw_ops.ResourceApplyCenteredRMSProp if self.centered else tf.raw_ops.ResourceApplyRMSProp
        return kernel(grad=grad, **self._arguments(var))

    def _apply_sparse(self, grad: tf.IndexedSlices, var: tf.Variable) -> tf.Operation:
        ops = tf.raw_ops
        kernel = ops.ResourceSparseApplyCenteredRMSProp if self.centered else ops.ResourceSparseApplyRMSProp
        return kernel(grad=grad.values, indices=grad.indices, **self._arguments(var))


class FtrlOptimizer(Optimizer):
    """
    Follow the regularized leader, for sparse models with many features.

    McMahan et al. (2013), "Ad Click Prediction: a View from the Trenches".
    """

    optimizer_names = ("ftrl", "ftrloptimizer")

    def __init__(
        self,
        learning_rate: Number,
        learning_rate_power: float = -0.5,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "Ftrl",
        accum_name: str | None = None,
        linear_name: str | None = None,
        l2_shrinkage_regularization_strength: float = 0.0,
        beta: float | None = None,
    ):
        """
        :param learning_rate_power: how the learning rate falls with the sum of squares, at most 0; 0 keeps it fixed
        :param initial_accumulator_value: of the sum of squared gradients, at least 0
        :param l1_regularization_strength: factor of the L1 norm, at least 0
        :param l2_regularization_strength: factor of the squared L2 norm, at least 0
        :param accum_name: name of the slot with the sum of squares; by default that of the optimizer
        :param linear_name: name of the slot with the linear term; by default that of the optimizer
        :param l2_shrinkage_regularization_strength: L2 penalty on the magnitude, as part of the gradient; at least 0
        :param beta: of the paper, at least 0
        """
        super().__init__(learning_rate, use_locking, name)
        self.learning_rate_power = learning_rate_power
        self.initial_accumulator_value = initial_accumulator_value
        self.l1_regularization_strength = l1_regularization_strength
        self.l2_regularization_strength = l2_regularization_strength
        self.l2_shrinkage_regularization_strength = l2_shrinkage_regularization_strength
        self.beta = beta or 0.0
        self.accum_name = accum_name
        self.linear_name = linear_name
        check_range(self.name, "learning_rate_power", learning_rate_power, at_least=-float("inf"), at_most=0.0)
        for option in ("initial_accumulator_value", "beta"):
            check_range(self.name, option, getattr(self, option), at_least=0.0)
        for option in ("l1", "l2", "l2_shrinkage"):
            option += "_regularization_strength"
            check_range(self.name, option, getattr(self, option), at_least=0.0)

    def _create_slots(self, var: tf.Variable) -> None:
        self._slot(var, "accum", name=self.accum_name, initial=self.initial_accumulator_value)
        self._slot(var, "linear", name=self.linear_name)

    def _arguments(self, var: tf.Variable) -> dict[str, object]:
        rate, l2 = self._tensor("learning_rate", var), self._tensor("l2_regularization_strength", var)
        shrinkage = (
            {"l2_shrinkage": self._tensor("l2_shrinkage_regularization_strength", var)} if self._shrinks() else {}
        )
        return {
            "var": var.handle,
            "accum": self._slot(var, "accum").handle,
            "linear": self._slot(var, "linear").handle,
            "lr": rate,
            "l1": self._tensor("l1_regularization_strength", var),
            "l2": l2 + self._tensor("beta", var) / (2.0 * rate) if self.beta else l2,
            "lr_power": self._tensor("learning_rate_power", var),
            "use_locking": self.use_locking,
            **shrinkage,
        }

    def _shrinks(self) -> bool:
        return bool(self.l2_shrinkage_regularization_strength)

    def _apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        kernel = tf.raw_ops.ResourceApplyFtrlV2 if self._shrinks() else tf.raw_ops.ResourceApplyFtrl
        return kernel(grad=grad, **self._arguments(var))

    def _apply_sparse(self, grad: tf.IndexedSlices, var: tf.Variable) -> tf.Operation:
        kernel = tf.raw_ops.ResourceSparseApplyFtrlV2 if self._shrinks() else tf.raw_ops.ResourceSparseApplyFtrl
        return kernel(grad=grad.values, indices=grad.indices, **self._arguments(var))
