"""A state that is kept from one batch to the next, for sequences which go on in the next batch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar

import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Tensor
from returnn.tf.frontend_low_level.outermost_graph import outermost_graph
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.util.errors import ConfigError

WORDS = ("keep_over_epoch", "keep_over_epoch_no_init")
_IS_KEPT: ContextVar[bool] = ContextVar("whether states are kept", default=True)


@contextlib.contextmanager
def without_batches_before() -> Iterator[None]:
    """Graphs made inside have no variables for states: each batch starts from 0, as the first one does."""
    token = _IS_KEPT.set(False)
    try:
        yield
    finally:
        _IS_KEPT.reset(token)


def has_batches_before() -> bool:
    """:return: whether a batch may go on where the one before ended"""
    return _IS_KEPT.get()


class KeptState:
    """
    One part of a state, as variable that does not go into checkpoints. A batch of another size starts from 0.

    It is made before the first frame, by `initial`, and updated after the last one, by `keep`.
    """

    def __init__(self, layer: LayerBase, name: str, word: str) -> None:
        """
        :param layer: whose state it is
        :param name: of the part
        :param word: "keep_over_epoch": each epoch starts from 0; "keep_over_epoch_no_init": only the first one
        """
        self.layer = layer
        self.name = name
        self.is_reset = word == "keep_over_epoch"
        self.before: Tensor | None = None

    def initial(self, template: Tensor) -> Tensor:
        """
        :param template: [B, ...], what it looks like. A dynamic dim has size 0 where there is no batch before
        :return: the same dims: state after the last frame of the batch before
        """
        if rf.get_selected_backend() == "template":
            return template.copy_template()
        batch = [dim for dim in template.dims if dim.is_batch_dim()]
        rest = [dim for dim in template.dims if not dim.is_batch_dim()]
        if len(batch) != 1 or any(dim.is_beam_dim() for dim in rest):
            raise ConfigError(f"{self.layer.where()}: only a state [B, ...] can be kept, not {template}.")
        self.before = Tensor(self.name, dims=[*batch, *rest], dtype=template.dtype, feature_dim=template.feature_dim)
        sizes = [dim.dimension for dim in rest]
        at_first = [size or 0 for size in sizes]
        raw = tf.zeros([batch[0].get_dim_value(), *at_first], template.dtype)
        if has_batches_before():
            raw = self._last_or(raw, sizes)
        raw.set_shape([None, *sizes])
        self.before.raw_tensor = raw
        return self.before

    def _last_or(self, at_first: tf.Tensor, sizes: Sequence[int | None]) -> tf.Tensor:
        """
        :param at_first: [B, ...]
        :param sizes: of the axes after the batch axis
        :return: the state in the variable, which is made here, or `at_first` where no batch before fits
        """
        with outermost_graph():
            self.variable = tf.Variable(
                tf.zeros([0, *(size or 0 for size in sizes)], at_first.dtype),
                shape=tf.TensorShape([None, *sizes]),
                trainable=False,
                name=f"{self.layer.get_absolute_name_scope_prefix()}kept_{self.name}",
            )
        last = self.variable.read_value()
        is_usable = tf.equal(tf.shape(last)[0], tf.shape(at_first)[0])
        if self.is_reset:
            is_usable = tf.logical_and(is_usable, tf.not_equal(self.layer.network.get_epoch_step(), 0))
        return tf.cond(is_usable, lambda: last, lambda: at_first)

    def keep(self, last: Tensor) -> None:
        """
        :param last: state after the last frame
        """
        assert self.before is not None
        if any(dim.is_beam_dim() for dim in last.dims):
            raise ConfigError(
                f"{self.layer.where()}: option 'initial_state': of the hypotheses of a search, no state can be kept.\n"
                "  Possible there: zeros, ones, var, or a layer."
            )
        if not has_batches_before():
            return
        raw = last.copy_compatible_to_dims_raw(self.before.dims)
        with tf.control_dependencies([self.before.raw_tensor]):
            self.layer.network.register_post_control_dependencies([self.variable.assign(raw)])


class KeptInitial:
    """The initial value of a state that is kept: a function, which also knows what to keep."""

    def __init__(self, kept: KeptState, make_template: Callable[[], Tensor]) -> None:
        """
        :param kept: the state
        :param make_template: function that says what it looks like
        """
        self.kept = kept
        self.make_template = make_template

    def __call__(self) -> Tensor:
        """:return: state after the last frame of the batch before"""
        return self.kept.initial(self.make_template()) if self.kept.before is None else self.kept.before

    @property
    def is_used(self) -> bool:
        """Whether somebody asked for the value."""
        return self.kept.before is not None

    def keep(self, last: Tensor) -> None:
        """See `KeptState.keep`."""
        self.kept.keep(last)


def is_word(value: object) -> bool:
    """:return: whether an option for an initial value says that it is kept from the batch before"""
    return isinstance(value, str) and value in WORDS
