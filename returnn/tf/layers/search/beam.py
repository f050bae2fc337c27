"""
Beams: the hypotheses of a search, as dims.

A choice makes a new beam: each of its hypotheses continues one of an older beam. So the beams of a time step form a
chain, from the beam of the frame before to the one of the last choice. Where layers of different beams meet, the older
ones follow the newer: one gather along the beam dim, with the indices of the hypotheses that were continued.

What does not depend on a hypothesis does not have a beam dim, and is broadcast over it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor, batch_dim
from returnn.tensor.batch_info import SearchBeam
from returnn.tf.layers.search.dims_of_hypotheses import DimsOfHypotheses, beam_of_lengths, with_dims
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
        self.axes: dict[Dim, Any] = {}  # `BeamAxis` of each beam, as it is seen from outside
        self._dims = DimsOfHypotheses()
        self._contradictions: list[ConfigError] | None = None  # while they are only noted

    @property
    def is_empty(self) -> bool:
        """Whether there is none."""
        return not self._beams

    def register(self, beam: Beam) -> None:
        """Adds a beam, or replaces what was known of it."""
        before = self._beams.get(beam.dim)
        self._beams[beam.dim] = beam
        is_new = before is None or before.src_beams is not beam.src_beams
        if is_new and beam.src_beams is not None and beam.src_beams.raw_tensor is not None:
            for dim, first, first_beam in self._dims.of_beam(beam.dim):
                if first.dyn_size is not None and any(first_beam == older.dim for older in self.chain(beam)):
                    dim.dyn_size_ext = self._lengths_for(beam, first, first_beam)

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
        """:return: the beam of a tensor, or of the lengths that one of its dims has; None if it has none"""
        dims = [dim for dim in x.dims if dim.is_beam_dim()]
        if not dims and not self.is_empty:
            dims = [beam for beam in map(beam_of_lengths, x.dims) if beam is not None]
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

    def tensors(self) -> Iterator[Tensor]:
        """:yield: what is known of each hypothesis: [B, beam]"""
        for beam in self._beams.values():
            yield from (x for x in (beam.src_beams, beam.scores) if x is not None)

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
        :raises ConfigError: if there is none, unless that is noted
        """
        found = {beam.dim: beam for beam in map(self.of, tensors) if beam is not None}
        if not found:
            return None
        best = max(found.values(), key=lambda beam: len(self.chain(beam)))
        chain = {beam.dim for beam in self.chain(best)}
        others = [str(dim) for dim in found if dim not in chain]
        if others:
            error = ConfigError(
                f"{where}: the beams {best.dim} and {', '.join(others)} do not continue each other.\n"
                "  Of several choices in a step, each has to depend on the one before, or name it as\n"
                "  'explicit_search_sources'. Of a search before this one, take the best by the class 'decide'."
            )
            if self._contradictions is None:
                raise error
            self._contradictions.append(error)
        return best

    @contextmanager
    def noting_contradictions(self) -> Iterator[list[ConfigError]]:
        """
        Beams need not continue each other yet, where it is inferred what does: then templates are taken to be those of
        the later one.

        :yield: what is wrong, if it stays like this
        """
        around, self._contradictions = self._contradictions, []
        try:
            yield self._contradictions
        finally:
            self._contradictions = around

    def note_contradictions(self, errors: Sequence[ConfigError]) -> None:
        """:raises ConfigError: the first one, unless they are only noted"""
        if errors and self._contradictions is None:
            raise errors[0]
        if self._contradictions is not None:
            self._contradictions += errors

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
                    "  Take the best of them by the class 'decide'."
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
        if self._contradictions is not None and all(own.dim != other.dim for other in self.chain(beam)):
            return self.renamed(x, beam.dim)  # a template, and it is noted that this cannot be
        out = x
        if own.dim in x.dims:
            out = rf.gather(x, indices=self.source_indices(beam, own.dim), axis=own.dim)
            if x.feature_dim is not None and x.feature_dim in out.dims:
                out = out.copy_with_roles(feature_dim=x.feature_dim)
        return with_dims(out, lambda dim: self._dim_for(beam, dim))

    def for_later(self, x: Tensor, beam: Beam | None) -> Tensor:
        """:return: like `translate`; as it is if the beam does not continue the one of x"""
        own = self.of(x)
        is_earlier = own is not None and any(own.dim == other.dim for other in self.chain(beam)[1:])
        return self.translate(x, beam) if is_earlier else x

    def before_first_frame(self, initial: Tensor, frames: Tensor) -> Tensor:
        """
        :param initial: before the first frame of a search: the same for all hypotheses, or for those of a search around
        :param frames: for the hypotheses after its last frame
        :return: initial, for these
        """
        beam = self.of(frames)
        return initial if beam is None else self.renamed(self.for_later(initial, beam), beam.dim)

    def renamed(self, x: Tensor, beam: Dim | None) -> Tensor:
        """
        :param x: of some hypotheses, perhaps a template
        :param beam: another dim for the same ones, as the next frame sees them; None: x stays as it is
        :return: x with the other dim
        """
        old = None if beam is None else self.of(x)
        if beam is None or old is None or old.dim == beam:
            return x
        return with_dims(x, lambda dim: beam if dim == old.dim else self._renamed_dim(dim, old.dim, beam))

    def _renamed_dim(self, dim: Dim, old: Dim, beam: Dim) -> Dim:
        if beam_of_lengths(dim) != old:
            return dim
        new = self._dims.for_beam(dim, beam)
        if dim.is_derived():
            for atom in dim.expression.atoms():
                self._renamed_dim(atom, old, beam)
        elif _misses_lengths(new, dim):
            new.dyn_size_ext = rf.replace_dim(dim.get_size_tensor(), in_dim=old, out_dim=beam)[0]
        return new

    def _dim_for(self, beam: Beam, dim: Dim) -> Dim:
        """:return: the dim itself; if its lengths are those of older hypotheses, the one with lengths of these"""
        older = beam_of_lengths(dim)
        if older is None or older == beam.dim or all(older != other.dim for other in self.chain(beam)):
            return dim
        new = self._dims.for_beam(dim, beam.dim)
        if dim.is_derived():
            for atom in dim.expression.atoms():
                self._dim_for(beam, atom)
        elif _misses_lengths(new, dim):
            new.dyn_size_ext = self._lengths_for(beam, dim, older)
        return new

    def _lengths_for(self, beam: Beam, dim: Dim, older: Dim) -> Tensor:
        return rf.gather(dim.get_size_tensor(), indices=self.source_indices(beam, older), axis=older)


def _misses_lengths(new: Dim, dim: Dim) -> bool:
    """:return: whether the lengths of `new` are not known, but those of the other one are, as template or as values"""
    return new.dyn_size_ext is None or (new.dyn_size is None and dim.dyn_size is not None)


def choices_with_name(layers: Iterable[LayerBase], name: SearchBeam) -> Any:
    """
    :param layers: layers, some of which have choices
    :param name: name and size of a beam
    :return: the choices that it comes from, None if it is from none of the layers
    """
    choices = (layer.search_choices for layer in layers if layer.search_choices is not None)
    return next((each for each in choices if each.get_beam_info() == name), None)
