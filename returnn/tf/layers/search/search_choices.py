"""
What a search chose, as layers and code of users know it.

The search itself works with beams (`beam.py` beside this), named dims beside the batch dim. `SearchChoices` is the view
on one of them by the layer that made the choice, also as raw tensors.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from returnn.tensor import Tensor
from returnn.tensor.batch_info import SearchBeam
from returnn.tf.layers.core.layer_base import InternalLayer, LayerBase, WrappedInternalLayer
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.options.layer_options import layers_in, map_nested_layers
from returnn.tf.layers.search.beam import Beam, score_dtype
from returnn.tf.layers.user_code.outside_view import making_layers
from returnn.util.errors import ConfigError


class SearchChoices:
    """
    The hypotheses after a choice: their scores, and which ones they continue.

    Two of them can be compared: the later one is the greater one.
    """

    def __init__(self, owner: LayerBase, beam_size: int, is_decided: bool = False, keep_raw: bool = False) -> None:
        """
        :param owner: the layer that made the choice
        :param beam_size: number of hypotheses
        :param is_decided: whether nothing continues them
        :param keep_raw: whether the outputs of each step stay as they were at that step
        """
        self.owner = owner
        self.beam_size = beam_size
        self.is_decided = is_decided
        self.keep_raw = keep_raw
        self.beam: Beam | None = None

    def __repr__(self) -> str:
        marks = "".join(f" {name}" for name in ("is_decided", "keep_raw") if getattr(self, name))
        return f"<SearchChoices {self.owner.get_absolute_name()!r} beam_size={self.beam_size}{marks}>"

    # Scores, and where they come from.

    @property
    def beam_scores(self) -> Any:
        """Raw (B, beam), log space."""
        return self._raw(None if self.beam is None else self.beam.scores)

    @property
    def src_beams(self) -> Any:
        """Raw (B, beam): index of the hypothesis that is continued."""
        return self._raw(None if self.beam is None else self.beam.src_beams)

    def set_beam(self, beam: Beam) -> None:
        """
        :param beam: what is known of the hypotheses. From now on, the network knows it as well.
        """
        self.beam = beam
        self.owner.network.beams.register(beam)

    def set_beam_scores(self, scores: Any) -> None:
        """
        :param scores: raw (B, beam), log space
        """
        beam = self._own_beam()
        dims = [*self.owner.network.step.batch_dims(), beam.dim]
        self.set_beam(dataclasses.replace(beam, scores=Tensor("scores", dims, score_dtype(), raw_tensor=scores)))

    def set_src_beams(self, src_beam_idxs: Any) -> None:
        """
        :param src_beam_idxs: raw (B, beam): index of the hypothesis that is continued
        """
        beam = self._own_beam()
        dims = [*self.owner.network.step.batch_dims(), beam.dim]
        source = Tensor("src_beams", dims, "int32", raw_tensor=src_beam_idxs, sparse_dim=beam.source)
        self.set_beam(dataclasses.replace(beam, src_beams=source))

    def set_beam_from_rec(self, rev_vars_outputs: dict[str, Any]) -> None:
        """
        :param rev_vars_outputs: raw (B, beam): "choice_scores" and "choice_src_beams"
        :raises ConfigError: if one of them is missing
        """
        for key in ("choice_scores", "choice_src_beams"):
            if key not in rev_vars_outputs:
                raise ConfigError(f"{self.owner.where()}: there is no {key!r} among {sorted(rev_vars_outputs)}.")
        self.set_beam_scores(rev_vars_outputs["choice_scores"])
        self.set_src_beams(rev_vars_outputs["choice_src_beams"])

    def set_beam_from_own_rec(self) -> None:
        """Like `set_beam_from_rec`, with the `rec_vars_outputs` of the layer."""
        self.set_beam_from_rec(self.owner.rec_vars_outputs)

    def get_beam_info(self) -> SearchBeam | None:
        """:return: name and size; None if only one hypothesis is left"""
        if self.is_decided and not self.keep_raw:
            return None
        return SearchBeam(self.beam_size, name=self.owner.get_absolute_name())

    def _own_beam(self) -> Beam:
        if self.beam is None:
            self.beam = self.owner.network.beams.new_beam(self.owner, self.beam_size)
        return self.beam

    @staticmethod
    def _raw(x: Tensor | None) -> Any:
        return None if x is None or x.raw_tensor is None else x.copy_as_batch_major().raw_tensor

    # The order of choices.

    @property
    def src_layer(self) -> LayerBase | None:
        """The layer that made the choice before this one."""
        before = self.owner.network.get_search_choices(sources=self.owner.get_dep_layers())
        return None if before is None else before.owner

    def get_src_choices_seq(self) -> list[SearchChoices]:
        """:return: this choice, the one before it, and so on"""
        seq: list[SearchChoices] = []
        current: SearchChoices | None = self
        while current is not None and current not in seq:
            seq.append(current)
            layer = current.src_layer
            current = None if layer is None else layer.search_choices
        return seq

    @staticmethod
    def compare(self: SearchChoices | None, other: SearchChoices | None) -> int:
        """:return: -1 if the first one is earlier, 1 if it is later, 0 if they are the same; None is before all"""
        if self is other:
            return 0
        if self is None or other is None:
            return -1 if self is None else 1
        if self.beam is not None and other.beam is not None and self.beam.dim == other.beam.dim:
            return 0
        if any(other is choices for choices in self.get_src_choices_seq()) or other._is_continued_by(self):
            return 1
        if any(self is choices for choices in other.get_src_choices_seq()) or self._is_continued_by(other):
            return -1
        raise ConfigError(f"search: {self} and {other} do not continue each other.")

    def _is_continued_by(self, other: SearchChoices) -> bool:
        if self.beam is None or other.beam is None:
            return False
        return any(beam.dim == self.beam.dim for beam in other.owner.network.beams.chain(other.beam)[1:])

    def __cmp__(self, other: SearchChoices | None) -> int:
        return self.compare(self, other)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def __hash__(self) -> int:
        return id(self)

    def __lt__(self, other: SearchChoices | None) -> bool:
        return self.compare(self, other) < 0

    def __gt__(self, other: SearchChoices | None) -> bool:
        return self.compare(self, other) > 0

    # Layers of several choices.

    def translate_to_this_search_beam(self, sources: Any) -> Any:
        """
        :param sources: layer, or lists and dicts of layers
        :return: the same with layers whose outputs belong to the hypotheses after this choice
        """
        return map_nested_layers(sources, lambda layer: on_beam(layer, self.beam))

    @classmethod
    def translate_to_common_search_beam(cls, layer_desc: Any) -> Any:
        """
        :param layer_desc: options of a layer, with layers in lists and dicts
        :return: the same with layers whose outputs belong to the latest of their choices
        """
        found = layers_in(layer_desc)
        if not found:
            return layer_desc
        with making_layers():
            latest = found[0].network.beams.latest([layer.output for layer in found])
        return map_nested_layers(layer_desc, lambda layer: on_beam(layer, latest))


def on_beam(layer: LayerBase, beam: Beam | None) -> LayerBase:
    """
    :param layer: a layer
    :param beam: of a later choice
    :return: the layer with the output for these hypotheses; the layer itself if that is the same
    """
    beams = layer.network.beams
    with making_layers():
        output = layer.output
    own = beams.of(output)
    if own is None or beam is None or own.dim == beam.dim:
        return layer
    output = beams.translate(output, beam)
    return WrappedInternalLayer(base_layer=layer, name=layer.name, network=layer.network, output=output)


class SelectSearchSourcesLayer(InternalLayer):
    """Another layer, for the hypotheses after a later choice. The toolkit does this by itself where it is needed."""

    def __init__(
        self, search_choices_layer: LayerBase, sources: list[LayerBase], output: Tensor | None = None, **kwargs: Any
    ) -> None:
        """
        :param search_choices_layer: that choice, or a layer which depends on it
        :param sources: the layer
        """
        super().__init__(sources=sources, output=output, **kwargs)
        self.search_choices_layer = search_choices_layer

    def compute(self, source: Tensor) -> Tensor:
        """:return: the output of the layer for these hypotheses"""
        choices = self.search_choices_layer.get_search_choices()
        return source if choices is None else on_beam(self.sources[0], choices.beam).output

    @classmethod
    def transform_config_dict(cls, d: dict[str, Any], network: Network, get_layer: Any) -> None:
        """See `LayerBase.transform_config_dict`. `search_choices` is the name of the layer."""
        if "search_choices" in d:
            d["search_choices_layer"] = d.pop("search_choices")
        super().transform_config_dict(d, network=network, get_layer=get_layer)

    @classmethod
    def select_if_needed(cls, layer: LayerBase, search_choices: SearchChoices | None) -> LayerBase:
        """
        :param layer: a layer
        :param search_choices: a later choice
        :return: the layer for the hypotheses after this choice
        """
        return layer if search_choices is None else on_beam(layer, search_choices.beam)
