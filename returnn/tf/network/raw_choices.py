"""
Choices of users' own classes, which derive from `BaseChoiceLayer` and work on raw tensors.

With search, `__init__` sets `self.search_choices`, with the scores of the new hypotheses and which ones they continue,
and `self.output.placeholder` with batch and new hypotheses as one axis. What there is before the step, the class finds
by `network.get_search_choices(base_search_choice=self)`. The network knows the hypotheses as a beam, see `beam.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.search.beam import Beam
from returnn.tf.layers.search.choice import BaseChoiceLayer
from returnn.tf.layers.search.search_choices import SearchChoices
from returnn.util.errors import ConfigError


class RawChoice:
    """What a class makes of the hypotheses before a step: some others, which continue them."""

    def __init__(self, network: Network, size: int, tensors: Iterable[Tensor]) -> None:
        """
        :param network: of the layer
        :param size: number of new hypotheses
        :param tensors: what the layer depends on
        """
        self.size = size
        self.batch = network.step.batch_dims()
        frame = network.step.innermost_frame()
        before = None if frame is None else frame.scores_before()
        self.before = None if before is None else network.beams.of(before)
        if self.before is not None:
            self.before = dataclasses.replace(self.before, scores=before)
        self.base = network.beams.latest([*tensors, *([] if before is None else [before])])

    @classmethod
    def of(
        cls,
        layer_class: type[LayerBase],
        network: Network,
        name: str,
        options: Mapping[str, Any],
        tensors: Iterable[Tensor],
    ) -> RawChoice | None:
        """
        :param layer_class: of the layer
        :param network: where it is
        :param name: of it
        :param options: of it, with layers in place of their names
        :param tensors: what it depends on
        :return: None if it makes no hypotheses
        """
        if not issubclass(layer_class, BaseChoiceLayer):
            return None
        searches = {**options, "name": name, "network": network, "add_to_beam_scores": False}
        size = layer_class.cls_get_search_beam_size(**searches)
        return None if size is None else cls(network, size, tensors)

    def declare(self, template: LayerBase) -> None:
        """Says what the hypotheses of a layer look like, whose values are not known."""
        dims = [*self.batch, self.dim_of(template)]
        src_beams = None if self.base is None else Tensor("src_beams", dims, "int32", sparse_dim=self.base.dim)
        self._register(template, src_beams, Tensor("scores", dims, "float32"))

    def take(self, layer: LayerBase) -> None:
        """
        Takes over what the class has found.

        :raises ConfigError: if it says nothing of its hypotheses
        """
        found = layer.search_choices
        beam = found.beam if isinstance(found, SearchChoices) else None
        if beam is None or beam.scores is None or beam.src_beams is None:
            raise ConfigError(
                f"{layer.where()}: it searches, so `__init__` has to set `self.search_choices`:"
                " SearchChoices(owner=self, beam_size=...),\n  with `set_beam_scores` and `set_src_beams`."
            )
        if beam.dim.size != self.size:
            raise ConfigError(
                f"{layer.where()}: `self.search_choices` has beam_size={beam.dim.size}, but"
                f" `cls_get_search_beam_size` says {self.size}."
            )
        scores, src_beams = rf.cast(beam.scores, "float32"), rf.cast(beam.src_beams, "int32")
        base = None if self.base is None else self.base.dim
        self._register(layer, src_beams.copy_with_roles(sparse_dim=base), scores)

    def _register(self, layer: LayerBase, src_beams: Tensor | None, scores: Tensor) -> None:
        base = None if self.base is None else self.base.dim
        layer.search_choices = SearchChoices(owner=layer, beam_size=self.size)
        layer.search_choices.set_beam(Beam(self.dim_of(layer), layer, base, src_beams, scores))

    def dim_of(self, layer: LayerBase) -> Dim:
        """:return: of the new hypotheses"""
        return layer.new_dim("beam", self.size, kind=Dim.Types.Beam, auto_generated=False)

    def split(self, layer: LayerBase, x: Tensor) -> Tensor:
        """
        :param layer: that makes the choice
        :param x: {B * beam, ...}, whatever its batch dim is called
        :return: {B, beam, ...}
        """
        axis = x.batch_dim_axis
        if axis is None:
            return x
        dims = [dim for dim in x.dims if not dim.is_beam_dim()]
        axis = dims.index(x.dims[axis])
        beam = self.dim_of(layer)
        own = [*self.batch, beam]
        raw = x.raw_tensor
        if raw is not None:
            shape = tf.shape(raw)
            raw = tf.reshape(raw, tf.concat([shape[:axis], [-1, self.size], shape[axis + 1 :]], axis=0))
        return Tensor(
            x.name,
            [*dims[:axis], *own, *dims[axis + 1 :]],
            x.dtype,
            sparse_dim=x.sparse_dim,
            feature_dim=x.feature_dim,
            version=x.version,
            raw_tensor=raw,
        )
