"""Layers whose output is their source, and which show it to people, or wait for something."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import tensorflow as tf

from returnn.tensor import Tensor
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.output_debugging import print_op
from returnn.tf.layers.core.side_effects import in_each_step
from returnn.util.errors import ConfigError


class _PassThrough(LayerBase):
    """Base class of layers whose output is their source."""

    keeps_zeros = True
    has_effect: ClassVar[bool] = False  # the operations run in each step, also if nothing needs the output

    def compute(self, *sources: Tensor) -> Tensor:
        """:return: the source"""
        if len(sources) != 1:
            raise ConfigError(f"{self.where()}: exactly one source is needed (option 'from'), not {len(sources)}.")
        output = sources[0].copy()
        operations = [] if output.raw_tensor is None else self.operations(output)
        if operations and self.has_effect:
            output.raw_tensor = in_each_step(self, output.raw_tensor, operations)
        elif operations:
            with tf.control_dependencies(operations):
                output.raw_tensor = tf.identity(output.raw_tensor)
        return output

    def operations(self, source: Tensor) -> list[Any]:
        """:return: what runs before the output is used"""
        raise TypeError(f"{type(self).__name__} defines no operations")


class IdentityLayer(_PassThrough):
    """The source, after other layers have been computed."""

    layer_class = "identity"

    def __init__(
        self,
        sources: Sequence[LayerBase] = (),
        control_dependencies: Sequence[LayerBase] | LayerBase | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param sources: one layer
        :param control_dependencies: other layers, which are computed before
        """
        super().__init__(sources=sources, **kwargs)
        self.control_dependencies = control_dependencies

    def operations(self, source: Tensor) -> list[Any]:
        """:return: the other layers"""
        layers = self.control_dependencies or []
        layers = [layers] if isinstance(layers, LayerBase) else layers
        return [layer.output.raw_tensor for layer in layers]


class PrintLayer(_PassThrough):
    """The source, which is printed to the log in each step."""

    layer_class = "print"
    has_effect = True

    def __init__(self, summarize: int | None = 99, extra_print_args: Sequence[Any] = (), **kwargs: Any) -> None:
        """
        :param summarize: so many numbers at most; None: all
        :param extra_print_args: what is printed, too
        """
        super().__init__(**kwargs)
        self.summarize = summarize
        self.extra_print_args = extra_print_args

    def operations(self, source: Tensor) -> list[Any]:
        """:return: prints name, shape and values"""
        return [print_op(self, source, summarize=self.summarize, extra_print_args=self.extra_print_args)]


class ImageSummaryLayer(_PassThrough):
    """
    The source, of which TensorBoard shows images: [B, H, W, C] with 1, 3 or 4 colours, or [B, T, F] in grey.
    """

    layer_class = "image_summary"

    def __init__(self, max_outputs: int = 3, **kwargs: Any) -> None:
        """
        :param max_outputs: so many sequences of the batch
        """
        super().__init__(**kwargs)
        self.max_outputs = max_outputs

    def operations(self, source: Tensor) -> list[Any]:
        """:return: nothing: the summary is computed together with all others"""
        raw = source.copy_as_batch_major().copy_with_feature_last().raw_tensor
        if raw.shape.ndims == 3:
            raw = raw[..., None]
        if raw.shape.ndims != 4:
            raise ConfigError(f"{self.where()}: the source {source} cannot be shown as image.")
        tf.compat.v1.summary.image(self.get_absolute_name(), raw, max_outputs=self.max_outputs)
        return []
