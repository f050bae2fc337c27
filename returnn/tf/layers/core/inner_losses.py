"""
Losses of what is inside of a layer, where they can only be handed out as values: of the two layers of a "cond", which
count if the layer is computed; of a loop in a loop, which count in each frame of that.

In a loop, the values of all frames are kept, and added up behind it. Where such a layer is inside of another one, as a
"cond" in a "cond", the values of a frame are handed to that. Outside of loops, a "cond" hands out regularization in the
same way; in a loop, that is what the layers keep themselves, see `regularization`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.loss_holder import LossHolder
from returnn.tf.layers.core.losses_of_frames import (
    PARTS,
    LossOfFrame,
    behind,
    check_number,
    losses_of_sequences,
    num_losses,
    sum_of_sequences,
    templates_of_frame,
    values_of_frame,
)
from returnn.tf.layers.core.regularization import REGULARIZATION
from returnn.util.errors import ConfigError


class InnerLosses:
    """
    What the losses inside of a layer are.

    How many values are handed out is known before. So there is a place for each loss that the options of an inner layer
    may have; in those of one that is not computed is a zero. A value is known by its name, such as
    "true_layer 0 error"; the regularization by "true_layer".
    """

    def __init__(self, options: Mapping[str, Mapping[str, Any] | None], batch: Dim | None = None) -> None:
        """
        :param options: of inner layers, such as those of a "cond" by "true_layer" and "false_layer"; None for one that
            exists already
        :param batch: the batch dim, in a frame of a loop, and where all frames of a loop in it are computed at once
        """
        self.batch = batch
        self._num = {key: num_losses(desc) for key, desc in options.items()}
        self._regularized = [key for key, desc in options.items() if batch is None and _is_regularized(desc)]
        self._holders: dict[str, list[LossHolder]] = {}
        self._values: dict[str, list[dict[str, Any]]] = {}  # raw scalars, of each loss
        self._is_of_all_frames = False
        self._values_of_frame: Mapping[str, Tensor] = {}  # by name, for a layer around
        self._constraints: list[Any] = []  # raw scalars

    @property
    def has_any(self) -> bool:
        """Whether there may be losses or regularization."""
        return bool(self._regularized) or any(self._num.values())

    @contextlib.contextmanager
    def collecting(self, layer: LayerBase) -> Iterator[None]:
        """
        While layers inside are made: they hand their losses to this one.

        :param layer: which the losses are inside of
        """
        frame = None if self.batch is None else layer.network.step.innermost_frame()
        if frame is None:
            yield
            return
        frame.take_losses_of.append(frame.path_of(layer.get_absolute_name()))
        try:
            yield
        finally:
            frame.take_losses_of.pop()

    def declare(self, layer: LayerBase, output: Tensor) -> None:
        """
        Says what a frame of a loop will hand out, while dims are inferred.

        :param layer: which the losses are inside of
        :param output: of the layer
        """
        if not self.has_any or not self._is_kept(layer, output):
            return
        assert self.batch is not None
        parts = {key: templates_of_frame(num, self.batch) for key, num in self._num.items()}
        for name, template in _named(parts).items():
            layer.keep_for_after_loop(name, template)

    def take(self, layer: LayerBase, output: Tensor, values: Mapping[str, Tensor]) -> None:
        """
        Takes what was handed out.

        :param layer: which the losses are inside of
        :param output: of the layer
        :param values: by name
        """
        if self.batch is None:
            self._set_values(values)
        elif self._is_kept(layer, output):
            for name, value in values.items():
                layer.keep_for_after_loop(name, value)
        elif self._is_inside(layer):
            self._values_of_frame = values

    def _is_kept(self, layer: LayerBase, output: Tensor) -> bool:
        """:return: whether it is a frame of a loop, and no target would be compared with hypotheses of a search"""
        is_of_frame = self.batch is not None and not layer.network.beams.has_hypotheses(output)
        return is_of_frame and not self._is_inside(layer)

    def _is_inside(self, layer: LayerBase) -> bool:
        """
        :return: whether another layer takes the losses of a frame: one that it is made inside of, or the loop that it
            was moved out of, if that is itself in a loop
        """
        if not layer.is_in_frame():
            return True
        frame = layer.network.step.innermost_frame()
        return frame is not None and frame.has_losses_taken(frame.path_of(layer.get_absolute_name()))

    def computed(
        self, key: str, layer: LayerBase, losses: Callable[[], Sequence[LossHolder]], constraints: Callable[[], Any]
    ) -> dict[str, Tensor]:
        """
        :param key: of the inner layer that is computed
        :param layer: for errors
        :param losses: function that gives its losses
        :param constraints: function that gives its regularization, a raw scalar
        :return: values to hand out, by name: scalars; in a frame of a loop [batch]
        """
        holders = list(losses()) if self._num[key] else []
        check_number(layer, holders, self._num[key])
        self._holders[key] = holders = holders if self.batch is None else losses_of_sequences(holders)
        parts = {}
        for other, num in self._num.items():
            of_branch = holders if other == key else []
            parts[other] = (
                _scalars(of_branch, num) if self.batch is None else values_of_frame(of_branch, num, self.batch)
            )
        regularization = {other: _scalar(constraints() if other == key else None) for other in self._regularized}
        return {**_named(parts), **regularization}

    def _set_values(self, values: Mapping[str, Tensor]) -> None:
        for key, num in self._num.items():
            names = [{part: f"{key} {i} {part}" for part in PARTS} for i in range(num)]
            raw = [{part: values[name].raw_tensor for part, name in parts.items()} for parts in names]
            self._values[key] = [{**parts, "norm_factor": parts["frames"]} for parts in raw]
        self._constraints = [values[key].raw_tensor for key in self._regularized]

    def set_totals(self, totals: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """
        Takes what was handed out in all frames of a loop.

        :param totals: [batch] each, see `LayerRec.after_loop`
        :return: those which are something else
        """
        others = dict(totals)
        for key, num in self._num.items():
            names = [{part: f"{key} {i} {part}" for part in PARTS} for i in range(num)]
            if num and all(name in others for parts in names for name in parts.values()):
                parts = [{part: others.pop(name) for part, name in of_loss.items()} for of_loss in names]
                self._values[key] = [sum_of_sequences(x) for x in parts]
                self._is_of_all_frames = True
        return others

    def constraints(self) -> Any:
        """:return: raw scalar"""
        return sum(self._constraints)

    def of_all_frames(self, layer: LayerBase) -> list[LossHolder]:
        """:return: the losses behind the loops; none if they were handed to a layer around"""
        return self.holders(layer, None) if self._is_of_all_frames else []

    def holders(self, layer: LayerBase, reduce_func: Callable[[Any], Any] | None) -> list[LossHolder]:
        """
        :param layer: which they are inside of
        :param reduce_func: has to be None
        :return: the losses, with their values; those of the same name are one
        """
        found: dict[str, LossHolder] = {}
        for key, holders in self._holders.items():
            for i, inner in enumerate(holders):
                if self._values_of_frame:
                    parts = {part: self._values_of_frame[f"{key} {i} {part}"] for part in PARTS}
                    holder: LossHolder = LossOfFrame(layer, inner, parts)
                else:
                    holder = behind(layer, inner, self._values[key][i])
                same = found.get(holder.name)
                found[holder.name] = holder if same is None else _sum_of(layer, same, holder)
        if found and reduce_func is not None:
            raise ConfigError(f"{layer.where()}: the losses inside are only known as their sum over all frames.")
        return list(found.values())


def _named(parts: Mapping[str, list[dict[str, Tensor]]]) -> dict[str, Tensor]:
    """:return: the values of all losses, by name"""
    return {
        f"{key} {i} {part}": value
        for key, losses in parts.items()
        for i, values in enumerate(losses)
        for part, value in values.items()
    }


def _scalars(holders: list[LossHolder], num: int) -> list[dict[str, Tensor]]:
    """:return: for each loss, its parts; in place of the number of frames, the factor by which it becomes a mean"""
    found = [(loss.get_loss_value(), loss.get_error_value(), loss.get_norm_factor()) for loss in holders]
    nothing = (None, None, None)
    return [dict(zip(PARTS, map(_scalar, x), strict=True)) for x in [*found, *[nothing] * (num - len(found))]]


def _sum_of(layer: LayerBase, a: LossHolder, b: LossHolder) -> LossHolder:
    """:return: both as one. Outside of loops, one of them is zero"""
    if (a.loss.scale, a.loss.use_normalized_loss) != (b.loss.scale, b.loss.use_normalized_loss):
        raise ConfigError(f"{layer.where()}: the losses {a.name!r} of both layers need the same 'scale' and norm.")
    if isinstance(a, LossOfFrame) and isinstance(b, LossOfFrame):
        return LossOfFrame(layer, a, {part: x + b.parts[part] for part, x in a.parts.items()})
    pairs = [(x.get_loss_value(), x.get_error_value()) for x in (a, b)]
    value, error = [x if y is None else y if x is None else x + y for x, y in zip(*pairs, strict=True)]
    num_frames = sum(tf.math.divide_no_nan(1.0, x.get_norm_factor()) for x in (a, b))
    return LossHolder(
        name=a.name,
        loss=a.loss,
        layer_output=layer.output,
        layer=layer,
        network=layer.network,
        loss_value=value,
        error_value=error,
        norm_factor=tf.math.divide_no_nan(1.0, num_frames),
        only_on_eval=a.get_only_on_eval(),
    )


def _scalar(value: Any) -> Tensor:
    raw = tf.cast(0.0 if value is None else value, tf.float32)
    return Tensor("loss", dims=(), dtype="float32", raw_tensor=raw)


def _is_regularized(desc: Any) -> bool:
    if not isinstance(desc, Mapping):
        return False
    return any(desc.get(option) for option in REGULARIZATION) or any(map(_is_regularized, desc.values()))
