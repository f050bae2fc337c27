"""
Beams: the hypotheses of a search, as dims.

A choice makes a new beam: each of its hypotheses continues one of an older beam. So the beams of a time step form a
chain, from the beam of the frame before to the one of the last choice. Where layers of different beams meet, the older
ones follow the newer: one gather along the beam dim, with the indices of the hypotheses that were continued.

What does not depend on a hypothesis does not have a beam dim, and is broadcast over it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor, batch_dim
from returnn.tensor.batch_info import SearchBeam
from returnn.util.errors import ConfigError

if TYPE_CHECKING:
    from returnn.tf.layers.core.layer_base import LayerBase


@dataclass(frozen=True)
class Beam:
    """The hypotheses after a choice."""

    dim: Dim
    choice: LayerBase | None  # None: the beam of the frame before
    source: Dim | None = None  # the beam that the hypotheses continue; None: there was none
    src_beams: Tensor | None = None  # [B, dim] -> source
    scores: Tensor | None = None  # [B, dim], log space, the best first
    is_kept: bool = False  # the hypotheses stay as they are, nothing continues them


@dataclass(frozen=True)
class SearchEnd:
    """What is known of the best hypotheses where a loop with a limit of its length is over."""

    loop: LayerBase
    choice: LayerBase
    scores: Tensor  # [B], log space
    is_cut: Tensor  # [B], bool: it had not ended at the limit


def score_dtype() -> str:
    """:return: of the scores of hypotheses: that of floats in the network, with at least 32 bits"""
    return "float64" if rf.get_default_float_dtype() == "float64" else "float32"


class Beams:
    """All beams of a network, by their dim. Templates and values are kept under the same dim: the last one counts."""

    def __init__(self) -> None:
        self._beams: dict[Dim, Beam] = {}
        self._choices: dict[SearchBeam, Any] = {}
        self.ends: dict[Dim, SearchEnd] = {}  # of loops, by their beam

    @property
    def is_empty(self) -> bool:
        """Whether there is none."""
        return not self._beams

    def register(self, beam: Beam) -> None:
        """Adds a beam, or replaces what was known of it."""
        self._beams[beam.dim] = beam

    def name_choices(self, name: SearchBeam, choices: Any) -> None:
        """
        :param name: name and size of a beam
        :param choices: what it comes from, `SearchChoices`
        """
        self._choices[name] = choices

    def choices_named(self, name: SearchBeam) -> Any:
        """:return: what a beam with this name and size comes from, as far as it is known here"""
        layers = [beam.choice for beam in self._beams.values() if beam.choice is not None]
        return self._choices.get(name) or choices_with_name(layers, name)

    def new_beam(self, choice: LayerBase, size: int) -> Beam:
        """:return: beam that a layer makes, whose hypotheses continue the latest ones among its sources"""
        source = self.latest(layer.output for layer in choice.get_dep_layers())
        dim = choice.new_dim("beam", size, kind=Dim.Types.Beam, auto_generated=False)
        return Beam(dim, choice, None if source is None else source.dim)

    def of(self, x: Tensor) -> Beam | None:
        """:return: the beam of a tensor, None if it has none"""
        dims = [dim for dim in x.dims if dim.is_beam_dim()]
        if not dims:
            return None
        return self._beams.get(dims[-1]) or Beam(dims[-1], None)

    def of_merged(self, merged: Dim) -> Beam | None:
        """:return: the beam of a dim that is the batch and a beam in one, None if it is not such a one"""
        return next((beam for dim, beam in self._beams.items() if batch_dim * dim == merged), None)

    def has_hypotheses(self, x: Tensor) -> bool:
        """:return: whether it has a beam, also one that is merged with the batch"""
        return self.of(x) is not None or any(self.of_merged(dim) is not None for dim in x.dims)

    def get(self, dim: Dim) -> Beam | None:
        """:return: the beam with this dim"""
        return self._beams.get(dim)

    def chain(self, beam: Beam | None) -> list[Beam]:
        """:return: the beam, the one that it continues, and so on"""
        chain: list[Beam] = []
        while beam is not None and beam not in chain:
            chain.append(beam)
            beam = None if beam.source is None else self._beams.get(beam.source) or Beam(beam.source, None)
        return chain

    def latest(self, tensors: Iterable[Tensor], *, where: str = "search") -> Beam | None:
        """
        :param tensors: some of them with a beam
        :param where: what needs them all
        :return: the latest of their beams: the one whose chain has all others
        :raises ConfigError: if there is none
        """
        found = {beam.dim: beam for beam in map(self.of, tensors) if beam is not None}
        if not found:
            return None
        best = max(found.values(), key=lambda beam: len(self.chain(beam)))
        chain = {beam.dim for beam in self.chain(best)}
        others = [str(dim) for dim in found if dim not in chain]
        if others:
            raise ConfigError(
                f"{where}: the beams {best.dim} and {', '.join(others)} do not continue each other.\n"
                "  Of several choices in a step, each has to depend on the one before, or name it as\n"
                "  'explicit_search_sources'. Of a search before this one, take the best by the class 'decide'."
            )
        return best

    def source_indices(self, beam: Beam, older: Dim) -> Tensor:
        """
        :return: [B, beam] -> older: for each hypothesis, which one of an older beam it continues
        :raises ConfigError: if it continues none of them
        """
        indices: Tensor | None = None
        for step in self.chain(beam):
            if step.dim == older:
                break
            if step.src_beams is None:
                raise ConfigError(
                    f"the hypotheses of {beam.dim} do not continue those of {older}.\n"
                    "  Where they are the target of a choice without search, it needs 'add_to_beam_scores': False.\n"
                    "  Or take the best of them by the class 'decide'."
                )
            source = step.src_beams
            indices = source if indices is None else rf.gather(source, indices=indices, axis=step.dim)
        assert indices is not None
        return indices

    def translate(self, x: Tensor, beam: Beam | None) -> Tensor:
        """:return: x for the hypotheses of a later beam; as it is if it has no beam, or this one"""
        own = self.of(x)
        if own is None or beam is None or own.dim == beam.dim or own.is_kept:
            return x
        out = rf.gather(x, indices=self.source_indices(beam, own.dim), axis=own.dim)
        if x.feature_dim is not None and x.feature_dim in out.dims:
            out = out.copy_with_roles(feature_dim=x.feature_dim)
        return out

    def for_later(self, x: Tensor, beam: Beam | None) -> Tensor:
        """:return: like `translate`; as it is if the beam does not continue the one of x"""
        own = self.of(x)
        is_earlier = own is not None and any(own.dim == other.dim for other in self.chain(beam)[1:])
        return self.translate(x, beam) if is_earlier else x


def choices_with_name(layers: Iterable[LayerBase], name: SearchBeam) -> Any:
    """
    :param layers: layers, some of which have choices
    :param name: name and size of a beam
    :return: the choices that it comes from, None if it is from none of the layers
    """
    choices = (layer.search_choices for layer in layers if layer.search_choices is not None)
    return next((each for each in choices if each.get_beam_info() == name), None)


def as_beam_of_frame_before(x: Tensor, prev_beam: Dim | None) -> Tensor:
    """:return: x with another dim for its beam: how the next frame sees it"""
    axes = [i for i, dim in enumerate(x.dims) if dim.is_beam_dim()]
    if not axes or prev_beam is None:
        return x
    out = x.copy_template_replace_dim_tag(axes[0], prev_beam)
    if x.raw_tensor is not None:
        out.raw_tensor = x.raw_tensor
    return out
