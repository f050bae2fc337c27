"""SGD, Lion, Adafactor and Muon, with the option names and the results of Keras 3."""

from __future__ import annotations

import re
from collections.abc import Sequence

import tensorflow as tf

from returnn.tf.optimizers.base import Number, norm
from returnn.tf.optimizers.keras_adam import KerasMoments
from returnn.tf.optimizers.keras_options import KerasOptimizer


class SGD(KerasOptimizer):
    """`m = momentum * m - learning_rate * grad; var += m`."""

    optimizer_names = ("sgd",)

    def __init__(self, learning_rate: Number = 0.01, momentum: float = 0.0, nesterov: bool = False, **kwargs):
        """
        :param momentum: share of the former step in the next one
        :param nesterov: `var += momentum * m - learning_rate * grad` instead
        """
        super().__init__(learning_rate, **kwargs)
        self.momentum = momentum
        self.nesterov = nesterov

    def _create_slots(self, var: tf.Variable) -> None:
        if self.momentum:
            self._slot(var, "m")

    def _apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        rate = self._tensor("learning_rate", var)
        if not self.momentum:
            return tf.raw_ops.ResourceApplyGradientDescent(
                var=var.handle, alpha=rate, delta=grad, use_locking=self.use_locking
            )
        return tf.raw_ops.ResourceApplyKerasMomentum(
            var=var.handle,
            accum=self._slot(var, "m").handle,
            lr=rate,
            grad=grad,
            momentum=self._tensor("momentum", var),
            use_locking=self.use_locking,
            use_nesterov=self.nesterov,
        )


class Lion(KerasOptimizer):
    """
    `var -= learning_rate * sign(beta_1 * m + (1 - beta_1) * grad); m = beta_2 * m + (1 - beta_2) * grad`.

    Chen et al. (2023), "Symbolic Discovery of Optimization Algorithms".
    """

    optimizer_names = ("lion",)

    def __init__(self, learning_rate: Number = 0.001, beta_1: float = 0.9, beta_2: float = 0.99, **kwargs):
        """
        :param beta_1: share of the running mean in the step
        :param beta_2: share of the former value in the running mean
        """
        super().__init__(learning_rate, **kwargs)
        self.beta_1 = beta_1
        self.beta_2 = beta_2

    def _create_slots(self, var: tf.Variable) -> None:
        self._slot(var, "m")

    def _apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        m = self._slot(var, "m")
        old_m = m.read_value()
        direction = tf.sign(self._running_mean(old_m, grad, "beta_1", var))
        return tf.group(
            m.assign(self._running_mean(old_m, grad, "beta_2", var), read_value=False),
            var.assign_sub(self._tensor("learning_rate", var) * direction, self.use_locking, read_value=False),
        )


class Adafactor(KerasOptimizer):
    """
    Adam without `m`, and with `v` of a matrix as the product of a row and a column, to save memory.

    Shazeer and Stern (2018), "Adafactor: Adaptive Learning Rates with Sublinear Memory Cost".
    """

    optimizer_names = ("adafactor",)

    def __init__(
        self,
        learning_rate: Number = 0.001,
        beta_2_decay: float = -0.8,
        epsilon_1: float = 1e-30,
        epsilon_2: float = 0.001,
        clip_threshold: float = 1.0,
        relative_step: bool = True,
        **kwargs,
    ):
        """
        :param beta_2_decay: `1 - step^beta_2_decay` is the share of the former value in the running mean of squares
        :param epsilon_1: added to the squares
        :param epsilon_2: least scale of a variable
        :param clip_threshold: largest root mean square of the step, before it is scaled
        :param relative_step: use a learning rate of at most `1 / sqrt(step)`
        """
        super().__init__(learning_rate, **kwargs)
        self.beta_2_decay = beta_2_decay
        self.epsilon_1 = epsilon_1
        self.epsilon_2 = epsilon_2
        self.clip_threshold = clip_threshold
        self.relative_step = relative_step

    def _create_slots(self, var: tf.Variable) -> None:
        if len(var.shape) < 2:
            self._slot(var, "v")
            return
        self._slot(var, "r", shape=var.shape[:-1])
        self._slot(var, "c", shape=[*var.shape[:-2], var.shape[-1]])

    def _prepare(self) -> None:
        step = tf.cast(self.step, tf.float64)
        self.squares_decay = 1.0 - tf.pow(step, tf.constant(self.beta_2_decay, step.dtype))
        self.rate = self.learning_rate
        if self.relative_step:
            self.rate = tf.minimum(tf.cast(self.rate, step.dtype), tf.math.rsqrt(step))

    def _apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        squares = tf.square(grad) + self._tensor("epsilon_1", var)
        factors, stores = self._factored(squares, var) if len(var.shape) >= 2 else self._full(squares, var)
        update = grad
        for (
            factor
        ) in factors:  # one by one, as their product can be too large for a number, where the gradient is small
            update = tf.math.multiply_no_nan(factor, update)  # 0 stays 0, also times infinity
        size = tf.maximum(_root_mean_square(update) / self._tensor("clip_threshold", var), 1.0)
        scale = tf.maximum(_root_mean_square(var.read_value()), self._tensor("epsilon_2", var))
        step = scale * self._tensor("rate", var) / size * update
        return tf.group(*stores, var.assign_sub(step, self.use_locking, read_value=False))

    def _full(self, squares: tf.Tensor, var: tf.Variable) -> tuple[list[tf.Tensor], list[tf.Operation]]:
        """:return: factors of the gradient, 1 / sqrt(v); what stores the running means"""
        v = self._slot(var, "v")
        new_v = self._running_mean(v.read_value(), squares, "squares_decay", var)
        return [tf.math.rsqrt(new_v)], [v.assign(new_v, read_value=False)]

    def _factored(self, squares: tf.Tensor, var: tf.Variable) -> tuple[list[tf.Tensor], list[tf.Operation]]:
        """
        :return: as `_full`, with `v = r / mean(r) * c`. Where rows and columns of the gradient are 0, as those of words
            that are not in the batch, `r` and `c` are `epsilon_1`, and `v` would be 0 in float32, not so its factors
        """
        r, c = self._slot(var, "r"), self._slot(var, "c")
        new_r = self._running_mean(r.read_value(), tf.reduce_mean(squares, axis=-1), "squares_decay", var)
        new_c = self._running_mean(c.read_value(), tf.reduce_mean(squares, axis=-2), "squares_decay", var)
        of_rows = tf.math.rsqrt(new_r) * tf.sqrt(tf.reduce_mean(new_r, axis=-1, keepdims=True))
        factors = [tf.expand_dims(of_rows, -1), tf.expand_dims(tf.math.rsqrt(new_c), -2)]
        return factors, [r.assign(new_r, read_value=False), c.assign(new_c, read_value=False)]


class Muon(KerasMoments):
    """
    Momentum whose step is made orthogonal, for matrices; AdamW for all other variables.

    Jordan et al. (2024), "Muon: An optimizer for hidden layers in neural networks"; for the size of the step
    Liu et al. (2025), "Muon is Scalable for LLM Training".
    """

    optimizer_names = ("muon",)

    def __init__(
        self,
        learning_rate: Number = 0.001,
        adam_beta_1: float = 0.9,
        adam_beta_2: float = 0.999,
        adam_weight_decay: float | None = 0.004,
        epsilon: float = 1e-07,
        weight_decay: float | None = 0.004,
        exclude_layers: Sequence[str] | None = None,
        exclude_embeddings: bool = True,
        muon_a: float = 3.4445,
        muon_b: float = -4.775,
        muon_c: float = 2.0315,
        adam_lr_ratio: float = 1,
        momentum: float = 0.95,
        ns_steps: int = 5,
        nesterov: bool = True,
        rms_rate: float | None = 0.2,
        **kwargs,
    ):
        """
        :param adam_beta_1: `beta_1` of AdamW
        :param adam_beta_2: `beta_2` of AdamW
        :param adam_weight_decay: weight decay of the variables that AdamW updates
        :param epsilon: of AdamW
        :param weight_decay: of the matrices
        :param exclude_layers: regular expressions; a variable in whose name one is found goes to AdamW
        :param exclude_embeddings: also those with "embedding" in their name
        :param muon_a: coefficient of `X` in the iteration that makes the step orthogonal
        :param muon_b: coefficient of `X X^T X`
        :param muon_c: coefficient of `(X X^T)² X`
        :param adam_lr_ratio: factor of the learning rate for AdamW
        :param momentum: share of the former step in the next one
        :param ns_steps: number of iterations
        :param nesterov: look ahead by `momentum`
        :param rms_rate: root mean square of the entries of a step, as of Adam; None: do not scale
        """
        super().__init__(learning_rate, weight_decay, **kwargs)
        self.beta_1 = adam_beta_1
        self.beta_2 = adam_beta_2
        self.epsilon = epsilon
        self.adam_weight_decay = adam_weight_decay
        self.exclude_layers = list(exclude_layers or ())
        self.exclude_embeddings = exclude_embeddings
        self.coefficients = (muon_a, muon_b, muon_c)
        self.adam_lr_ratio = adam_lr_ratio
        self.momentum = momentum
        self.ns_steps = ns_steps
        self.nesterov = nesterov
        self.rms_rate = rms_rate

    def _uses_adam(self, var: tf.Variable) -> bool:
        is_embedding = self.exclude_embeddings and "embedding" in var.op.name.lower()
        return len(var.shape) != 2 or is_embedding or any(re.search(name, var.op.name) for name in self.exclude_layers)

    def _weight_decay_of(self, var: tf.Variable) -> float | None:
        return self.adam_weight_decay if self._uses_adam(var) else self.weight_decay

    def _create_slots(self, var: tf.Variable) -> None:
        self._slot(var, "m")
        if self._uses_adam(var):
            self._slot(var, "v")

    def _prepare(self) -> None:
        self.adam_learning_rate = self.learning_rate * self.adam_lr_ratio

    def _apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        if self._uses_adam(var):
            power, rate = self._power("beta_2", var), self._tensor("adam_learning_rate", var)
            return self._apply_adam(tf.raw_ops.ResourceApplyAdam, grad, var, beta2_power=power, lr=rate)
        m, momentum = self._slot(var, "m"), self._tensor("momentum", var)
        new_m = momentum * m.read_value() + grad
        update = orthogonalize(grad + momentum * new_m if self.nesterov else new_m, self.coefficients, self.ns_steps)
        scale = 1.0 if self.rms_rate is None else self.rms_rate * max(var.shape) ** 0.5
        step = (scale * self._tensor("learning_rate", var)) * update
        return tf.group(m.assign(new_m, read_value=False), var.assign_sub(step, self.use_locking, read_value=False))


def orthogonalize(matrix: tf.Tensor, coefficients: tuple[float, float, float], num_iterations: int) -> tf.Tensor:
    """
    :param matrix: (n, m), static
    :param coefficients: `a`, `b`, `c` of the Newton-Schulz iteration `X <- a X + b X X^T X + c (X X^T)² X`
    :return: (n, m), about `U V^T` of the singular value decomposition `U S V^T`
    """
    a, b, c = coefficients
    is_tall = matrix.shape[0] > matrix.shape[1]
    x = tf.transpose(matrix) if is_tall else matrix
    x /= norm(x) + 1e-7
    for _ in range(num_iterations):
        square = tf.matmul(x, x, transpose_b=True)
        x = a * x + tf.matmul(b * square + c * tf.matmul(square, square), x)
    return tf.transpose(x) if is_tall else x


def _root_mean_square(x: tf.Tensor) -> tf.Tensor:
    return norm(x) / x.shape.num_elements() ** 0.5
