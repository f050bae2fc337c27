"""
What all optimizers share: slots, numbers as tensors, and one grouped op that updates all variables.

An optimizer holds one or more *slots* per variable (`m` and `v` of Adam), which are variables themselves. Their names
are a contract, because a checkpoint has them: the slots of `output/W` are `optimize/output/W/Adam` and
`optimize/output/W/Adam_1`, where `optimize` is the variable scope around `apply_gradients`.

A subclass has `_create_slots` and `_apply_dense`. Where a kernel for sparse gradients exists, `_apply_sparse` calls it;
otherwise a sparse gradient is made dense first, which gives the same result as the dense gradient.
The methods that the updater calls are those of `tf.compat.v1.train.Optimizer`, so one of these works as well.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterable, MutableMapping, Sequence
from typing import TypeAlias

import tensorflow as tf

from returnn.util.errors import ConfigError

Gradient: TypeAlias = "tf.Tensor | tf.IndexedSlices"
GradsAndVars: TypeAlias = "Sequence[tuple[Gradient, tf.Variable]]"
Number: TypeAlias = "float | tf.Tensor"


class Optimizer:
    """Updates variables by their gradients. See the module."""

    optimizer_names: tuple[str, ...] = ()  # by which configs name it, in lower case

    def __init__(self, learning_rate: Number, use_locking: bool = False, name: str | None = None):
        """
        :param learning_rate: factor of the update; a scalar tensor can change from step to step
        :param use_locking: hold a lock on the variable during its update, for several updates at once
        :param name: of the slots; by default the name of the class
        """
        self.learning_rate = learning_rate
        self.use_locking = use_locking
        self.name = name or type(self).__name__
        self._slots: dict[str, dict[object, tf.Variable]] = {}
        self._shared_variables: dict[str, tf.Variable] = {}
        self._tensors: dict[tuple[str, tf.DType], tf.Tensor] = {}

    def apply_gradients(self, grads_and_vars: Iterable[tuple[Gradient | None, tf.Variable]]) -> tf.Operation:
        """
        :param grads_and_vars: pairs; a variable without gradient (None) stays as it is
        :return: one op that updates all variables, and all that the optimizer keeps
        :raises ValueError: if no variable has a gradient
        """
        pairs = [(grad, var) for grad, var in grads_and_vars if grad is not None]
        if not pairs:
            raise ValueError(f"{self.name}: no variable has a gradient.")
        self.create_slots([var for _, var in pairs])
        self._tensors.clear()
        with tf.name_scope(self.name):
            return tf.group(*self._apply_all(pairs))

    def create_slots(self, variables: Sequence[tf.Variable]) -> None:
        """Creates what is kept for these variables, as far as it is not there yet, in the current variable scope."""
        for var in variables:
            self._create_slots(var)

    def get_slot(self, var: tf.Variable, name: str) -> tf.Variable | None:
        """:return: the slot of that name (see `get_slot_names`), None if there is none for the variable"""
        return self._slots.get(name, {}).get(var.ref())

    def get_slot_names(self) -> list[str]:
        """:return: e.g. ["m", "v"]"""
        return sorted(self._slots)

    def variables(self) -> list[tf.Variable]:
        """:return: all that is kept: what belongs to no single variable, then the slots"""
        slots = (slot for slots_by_var in self._slots.values() for slot in slots_by_var.values())
        return [*self._shared_variables.values(), *slots]

    # For subclasses.

    def _running_mean(self, mean: tf.Tensor, value: tf.Tensor, decay: str, var: tf.Variable) -> tf.Tensor:
        """:return: `decay * mean + (1 - decay) * value`, where `decay` is the name of an attribute"""
        return mean + self._rest(decay, var) * (value - mean)

    def _create_slots(self, var: tf.Variable) -> None:
        """Calls `_slot` for everything that is kept for the variable."""

    def _apply_all(self, pairs: GradsAndVars) -> list[tf.Operation]:
        """:return: ops that update all variables and then what is shared"""
        self._prepare()
        updates = [self._apply(grad, var) for grad, var in pairs]
        with tf.control_dependencies(updates):
            return updates + self._finish()

    def _prepare(self) -> None:
        """Computes what all variables share, before the first `_apply_dense`."""

    def _finish(self) -> list[tf.Operation]:
        """:return: the ops that run after all variables have been updated"""
        return []

    def _apply(self, grad: Gradient, var: tf.Variable) -> tf.Operation:
        if isinstance(grad, tf.IndexedSlices):
            return self._apply_sparse(merge_repeated_rows(grad), var)
        return self._apply_dense(grad, var)

    def _apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        raise TypeError(f"{type(self).__name__} defines no update of its own.")

    def _apply_sparse(self, grad: tf.IndexedSlices, var: tf.Variable) -> tf.Operation:
        """:param grad: each index occurs once"""
        return self._apply_dense(to_dense(grad, var), var)

    def _slot(
        self,
        var: tf.Variable,
        key: str,
        *,
        name: str | None = None,
        initial: float = 0.0,
        shape: Sequence[int] | None = None,
    ) -> tf.Variable:
        """
        :param key: for `get_slot`
        :param name: last part of the name of the variable; by default the name of the optimizer
        :param initial: value of all entries before the first step
        :param shape: by default that of the variable
        """
        slots = self._slots.setdefault(key, {})
        if var.ref() not in slots:
            slots[var.ref()] = new_variable(
                f"{var.op.name}/{name or self.name}",
                shape=var.shape if shape is None else shape,
                dtype=var.dtype.base_dtype,
                initial=initial,
                device=var.device,
            )
        return slots[var.ref()]

    def _shared_variable(self, name: str, *, initial: float, dtype: tf.DType = tf.float32) -> tf.Variable:
        """:return: a scalar variable that belongs to the optimizer as a whole"""
        if name not in self._shared_variables:
            self._shared_variables[name] = new_variable(name, shape=(), dtype=dtype, initial=initial, device="")
        return self._shared_variables[name]

    def _tensor(self, name: str, var: tf.Variable) -> tf.Tensor:
        """:return: the number in the attribute `name`, in the dtype of the variable; made once for all variables"""
        value, dtype = getattr(self, name), var.dtype.base_dtype
        is_graph_value = tf.is_tensor(value) or isinstance(value, tf.Variable)
        return self._once(name, var, lambda: tf.cast(value, dtype) if is_graph_value else tf.constant(value, dtype))

    def _rest(self, name: str, var: tf.Variable) -> tf.Tensor:
        """:return: 1 minus the number in the attribute `name`"""
        return self._once(f"1 - {name}", var, lambda: 1.0 - self._tensor(name, var))

    def _once(self, name: str, var: tf.Variable, compute: Callable[[], tf.Tensor]) -> tf.Tensor:
        """:return: what `compute` gives, once for all variables of that dtype"""
        key = (name, var.dtype.base_dtype)
        if key not in self._tensors:
            self._tensors[key] = compute()
        return self._tensors[key]


def norm(x: tf.Tensor) -> tf.Tensor:
    """:return: L2 norm of all entries, a scalar"""
    return tf.sqrt(2.0 * tf.nn.l2_loss(x))


def new_variable(
    name: str, *, shape: Sequence[int], dtype: tf.DType, initial: float = 0.0, device: str = ""
) -> tf.Variable:
    """:return: a variable that is not trained, named after the current variable scope and `name`, with "_1" if taken"""
    scope = tf.compat.v1.get_variable_scope()
    prefix = f"{scope.name}/" if scope.name else ""
    taken = _names_of_variables()
    unique, count = name, 0
    while prefix + unique in taken:
        count += 1
        unique = f"{name}_{count}"
    with tf.device(device), tf.control_dependencies(None):
        return tf.compat.v1.get_variable(
            unique,
            shape=shape,
            dtype=dtype,
            initializer=tf.compat.v1.constant_initializer(initial),
            trainable=False,
            use_resource=True,
        )


_names_by_graph: MutableMapping[tf.Graph, dict[str, None]] = weakref.WeakKeyDictionary()


def _names_of_variables() -> Collection[str]:
    """:return: names of all variables of the graph; looks only at those that came since the last call"""
    names = _names_by_graph.setdefault(tf.compat.v1.get_default_graph(), {})
    variables = tf.compat.v1.get_collection_ref(tf.compat.v1.GraphKeys.GLOBAL_VARIABLES)
    for var in variables[len(names) :]:
        names[var.op.name] = None
    return names


def merge_repeated_rows(grad: tf.IndexedSlices) -> tf.IndexedSlices:
    """:return: the same gradient, with each index only once; it is not computed again if it comes from here"""
    if grad.indices.op.type == "Unique":
        return grad
    indices, positions = tf.unique(grad.indices)
    values = tf.math.unsorted_segment_sum(grad.values, positions, tf.size(indices))
    return tf.IndexedSlices(values, indices, grad.dense_shape)


def to_dense(grad: Gradient, var: tf.Variable) -> tf.Tensor:
    """:return: the gradient as a tensor of the variable's shape"""
    if not isinstance(grad, tf.IndexedSlices):
        return grad
    return tf.math.unsorted_segment_sum(grad.values, grad.indices, var.shape[0])


def check_range(owner: str, option: str, value: Number, *, at_least: float, at_most: float = float("inf")) -> None:
    """:raises ConfigError: if the value is a number outside of the range; a tensor passes"""
    if isinstance(value, (int, float)) and not at_least <= value <= at_most:
        limit = f"at least {at_least:g}" + (f" and at most {at_most:g}" if at_most < float("inf") else "")
        raise ConfigError(f"optimizer {owner!r}: option {option!r} is {value!r}.\n  It has to be {limit}.")
