"""
Hypotheses of a search inside of a condition.

What a search knows of its hypotheses cannot be used outside of the branch that it is in. So the condition has a beam of
its own, which is that of the layer that was computed, with its scores.
"""

from __future__ import annotations

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.search.beam import Beam
from returnn.tf.layers.search.decide import with_time_dim
from returnn.tf.layers.search.dims_of_hypotheses import beam_of_lengths, with_dims
from returnn.tf.layers.search.search_choices import SearchChoices
from returnn.util.errors import ConfigError

Known = dict[str, Tensor]  # what is known of hypotheses: "scores", "src_beams"


class CondHypotheses:
    """The beams that searches inside of one condition have made."""

    def __init__(self, layer: LayerBase) -> None:
        """
        :param layer: the condition
        """
        self.layer = layer
        self._found: dict[str, Beam | None] = {}  # by key of the branch
        self._dim: Dim | None = None
        self._dims: dict[Dim, Dim] = {}  # with lengths for each hypothesis: those inside, and what they are outside
        self._makes_choices = False

    def taken_out(self, key: str, layer: LayerBase, output: Tensor) -> tuple[Tensor, Known]:
        """
        :param key: of the branch
        :param layer: of it
        :param output: of this layer, or of one inside of it
        :return: the output with the beam of the condition, if it has one of a search inside; what is known of it
        """
        beam = self._made_inside(output)
        self._found[key] = beam
        self._makes_choices |= layer.search_choices is not None
        self._check_same()
        if beam is None:
            return output, {}
        if self._dim is None:
            self._dim = self.layer.new_dim("beam", beam.dim.size, kind=Dim.Types.Beam, auto_generated=False)
        known = {"scores": beam.scores, "src_beams": beam.src_beams}
        of_branch = {name: self._renamed(x, beam.dim) for name, x in known.items() if x is not None}
        return self._renamed(output, beam.dim), of_branch

    def take(self, known: Known) -> None:
        """
        :param known: of the hypotheses of the layer that was computed
        """
        found = [beam for beam in self._found.values() if beam is not None]
        if self._dim is None or not found:
            return
        is_kept = all(beam.is_kept for beam in found)
        beam = Beam(self._dim, self.layer, found[0].source, **known, is_kept=is_kept)
        self.layer.network.beams.register(beam)
        if self._makes_choices:  # in a frame of a loop around, an inner loop makes none
            size = self._dim.size or 0
            self.layer.search_choices = SearchChoices(self.layer, size, is_decided=is_kept, keep_raw=is_kept)
            self.layer.search_choices.set_beam(beam)

    def _renamed(self, x: Tensor, beam: Dim) -> Tensor:
        """:return: x with dims that are known outside"""
        assert self._dim is not None
        for dim in [dim for dim in x.dims if beam_of_lengths(dim) == beam]:
            if dim not in self._dims:
                self._dims[dim] = self.layer.new_dim(f"of hypotheses:{dim.name}")
            new = self._dims[dim]
            new.dyn_size_ext = rf.replace_dim(dim.get_size_tensor(), in_dim=beam, out_dim=self._dim)[0]
            x = with_time_dim(x, dim, new)
        return with_dims(x, lambda dim: self._dim if dim == beam else dim)

    def _made_inside(self, output: Tensor) -> Beam | None:
        """:return: the beam of a tensor, if a layer inside has made it"""
        beam = self.layer.network.beams.of(output)
        if beam is None or beam.choice is None:
            return None
        name, around = beam.choice.get_absolute_name(), self.layer.get_absolute_name()
        return beam if name == around or name.startswith(f"{around}/") else None

    def _check_same(self) -> None:
        if len({None if beam is None else (beam.dim.size, beam.source) for beam in self._found.values()}) > 1:
            of_both = ", ".join(f"{key!r} has {beam.dim if beam else 'none'}" for key, beam in self._found.items())
            raise ConfigError(
                f"{self.layer.where()}: both layers have to have as many hypotheses: {of_both}.\n"
                "  The class 'decide' takes the best of them."
            )
