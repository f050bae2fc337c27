"""The end of a search: one hypothesis is left; and what is known of all of them."""

from __future__ import annotations

from typing import Any

import returnn.frontend as rf
from returnn.frontend import get_selected_backend
from returnn.tensor import Dim, Tensor, batch_dim
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.losses.sequence_losses import EditDistanceLoss
from returnn.tf.layers.search.beam import Beam, score_dtype
from returnn.tf.layers.search.choice import BaseChoiceLayer, ChoiceLayer
from returnn.tf.layers.search.search_choices import SearchChoices
from returnn.tf.layers.user_code.beam_axis import BeamAxis
from returnn.util.errors import ConfigError


class DecideLayer(BaseChoiceLayer):
    """
    The hypothesis with the best score. Without search, the source as it is.

    Source [B, beam, ...], output [B, ...].
    """

    layer_class = "decide"
    makes_hypotheses = False

    def __init__(self, length_normalization: bool = False, **kwargs: Any) -> None:
        """
        :param length_normalization: compare the scores divided by the lengths
        """
        super().__init__(**kwargs)
        self.length_normalization = length_normalization

    def compute(self, source: Tensor) -> Tensor:
        """:return: the source without its beam"""
        if isinstance(self.loss, EditDistanceLoss) and self.network.beams.of(source) is None:
            self.warning = (
                f"{self.where()}: without a search, there is nothing to decide: the loss 'edit_distance' compares what"
                " the source is in the training, with 'choice' the target itself, and is 0."
                " 'only_on_search': True leaves it out."
            )
        elif isinstance(self.loss, EditDistanceLoss) and (end := self._end_of_target_alone()):
            self.warning = (
                f"{self.where()}: the loss 'edit_distance' counts an error more per sequence: {self.target!r}"
                f" ends with {end!r}, the hypotheses do not, as the loop {self.sources[0].name!r} has no"
                " 'include_eos': True. search_metrics = ['wer'] compares without it."
            )
        return _decided(self, source, length_normalization=self.length_normalization)

    def _end_of_target_alone(self) -> str | None:
        """:return: label that ends the target, and is left out at the end of the loop"""
        data = self.network.extern_data
        is_known = self.sources[0].leaves_out_end and self.target and data.has_data(self.target)
        vocab = data.data[self.target].vocab if is_known else None
        return vocab.end_label if vocab is not None else None

    @classmethod
    def decide(
        cls,
        src: LayerBase,
        output: Tensor | None = None,
        owner: LayerBase | None = None,
        name: str | None = None,
        length_normalization: bool = False,
    ) -> tuple[Tensor, SearchChoices | None]:
        """
        :param src: layer with hypotheses: [B, beam, ...]
        :param output: template of the result
        :param owner: the layer that decides. Default: `src`
        :param name: of the result
        :param length_normalization: compare the scores divided by the lengths
        :return: [B, ...]: of the best hypothesis; the decision, None if there are no hypotheses
        """
        owner = owner or src
        source = _with_beam(src)
        if owner.network.beams.of(source) is None:
            return source, None
        result = _decided(owner, source, length_normalization=length_normalization)
        result = result.copy(name=name or (output.name if output is not None else f"{src.name}_decided"))
        return result, SearchChoices(owner=owner, beam_size=1, is_decided=True)


class DecideKeepBeamLayer(BaseChoiceLayer):
    """
    The hypotheses of each step as they were at that step. Without search, the source as it is.

    What a loop hands on is otherwise about the hypotheses of its last step: from each, the way back is followed.
    """

    layer_class = "decide_keep_beam"
    makes_hypotheses = False

    def __init__(self, sources: list[LayerBase], **kwargs: Any) -> None:
        """
        :param sources: the layer
        """
        super().__init__(sources=sources, **kwargs)

    def must_be_in_loop(self) -> str:
        """:return: a reason: it is about the search of one step"""
        return "reads the search of the step"

    def compute(self, source: Tensor) -> Tensor:
        """:return: the source, with a beam that nothing continues"""
        beam = self.network.beams.of(source)
        if beam is None:
            return source
        dim = self.new_dim("kept beam", beam.dim.dimension, kind=Dim.Types.Beam, auto_generated=False)
        self.search_choices = SearchChoices(self, dim.dimension or 0, is_decided=True, keep_raw=True)
        self.search_choices.set_beam(Beam(dim, self, is_kept=True))
        return self.network.beams.renamed(source, dim)


class ChoiceGetBeamScoresLayer(LayerBase):
    """
    Scores of the hypotheses: [B, beam], log space.

    Of a choice of values, with the input type "regression", there is one hypothesis, whose score is 0: [B].
    """

    layer_class = "choice_get_beam_scores"

    def must_be_in_loop(self) -> str:
        """:return: a reason: it is about the search of one step"""
        return "reads the search of the step"

    def compute(self, source: Tensor) -> Tensor:
        """:return: [B, beam], or [B]"""
        if self.network.beams.of(source) is None and _chooses_values(self.sources[0]):
            return rf.zeros([dim for dim in source.dims if dim.is_batch_dim()], dtype=score_dtype())
        return scores_of(self, source, _beam_of(self, source))


def _chooses_values(layer: LayerBase) -> bool:
    """:return: whether it is a choice of values, or a loop whose output is one"""
    compiled = getattr(layer, "compiled", None)
    if compiled is not None:
        return _chooses_values(compiled.inferred.layers["output"])
    return isinstance(layer, ChoiceLayer) and layer.search and layer.input_type == "regression"


class ChoiceGetSrcBeamsLayer(LayerBase):
    """Which hypothesis of the beam before is continued: [B, beam]."""

    layer_class = "choice_get_src_beams"

    def must_be_in_loop(self) -> str:
        """:return: a reason: it is about the search of one step"""
        return "reads the search of the step"

    def compute(self, source: Tensor) -> Tensor:
        """:return: [B, beam], int32"""
        beam = _beam_of(self, source)
        frame = self.network.step.innermost_frame()
        src_beams = frame.src_beams_before() if frame is not None and beam.choice is None else beam.src_beams
        if src_beams is None and get_selected_backend() == "template":
            return _template_of_beam(source, beam, "int32")
        if src_beams is None:
            raise ConfigError(f"{self.where()}: the hypotheses of {source} continue none.")
        return src_beams.copy_with_roles(sparse_dim=None)


class SplitBatchBeamLayer(BaseChoiceLayer):
    """The hypotheses as an axis of its own, beside the batch: [B, beam_dim, ...]."""

    layer_class = "split_batch_beam"
    makes_hypotheses = False

    def __init__(self, beam_dim: Dim | None = None, **kwargs: Any) -> None:
        """
        :param beam_dim: the dim that the hypotheses become
        """
        super().__init__(**kwargs)
        self.beam_dim = beam_dim

    def compute(self, source: Tensor) -> Tensor:
        """:return: the source, with `beam_dim` in place of its beam"""
        beam = self.network.beams.of(source)
        if beam is None:
            return source
        dim = self.beam_dim or self.new_dim("beam", beam.dim.dimension)
        if self.beam_dim is not None and dim.dimension is None:
            dim.declare_same_as(self.new_dim("beam", beam.dim.dimension))
        out = rf.replace_dim(source, in_dim=beam.dim, out_dim=dim)[0] if beam.dim in source.dims else source
        for time_dim in source.dims:
            if beam.dim in _length_dims(time_dim):
                new_dim = self.new_dim(f"split:{time_dim.name}")
                new_dim.dyn_size_ext, _ = rf.replace_dim(time_dim.dyn_size_ext, in_dim=beam.dim, out_dim=dim)
                out = rf.replace_dim(out, in_dim=time_dim, out_dim=new_dim)[0]
        return out


def _with_beam(layer: LayerBase) -> Tensor:
    """:return: output of a layer; of one that is complete, batch and beam are one axis, which is split again"""
    beam = layer.network.beams.of_merged(layer.output.get_batch_dim_tag()) if layer.output.have_batch_axis() else None
    if beam is None:
        return layer.output
    axis = BeamAxis(batch_dim, beam.dim)
    with_lengths = [dim for dim in layer.output.dims if axis.both in getattr(dim.dyn_size_ext, "dims", ())]
    output = axis.split(layer.output)
    for dim in with_lengths:
        lengths = axis.split(dim.dyn_size_ext)
        new = Dim(None, name=dim.name, dyn_size_ext=lengths)
        output = with_time_dim(output, dim, new)
    return output


def _decided(layer: LayerBase, source: Tensor, *, length_normalization: bool) -> Tensor:
    """:return: the best hypothesis of the source; as it is if it has none"""
    beam = layer.network.beams.of(source)
    if beam is None:
        return source
    scores = scores_of(layer, source, beam)
    time_dims = [dim for dim in source.dims if beam.dim in _length_dims(dim)]
    if length_normalization and time_dims:
        lengths = time_dims[0].get_size_tensor()
        scores = rf.combine_bc(scores, "/", rf.cast(rf.maximum(lengths, 1), scores.dtype))
    return take_hypothesis(layer, source, beam, rf.reduce_argmax(scores, axis=beam.dim))


def take_hypothesis(layer: LayerBase, source: Tensor, beam: Beam, index: Tensor) -> Tensor:
    """
    :param layer: for new dims
    :param source: [B, beam, ...]
    :param beam: its beam
    :param index: [B] -> beam
    :return: [B, ...], with time dims that have the lengths of the hypotheses
    """
    out = rf.gather(source, indices=index, axis=beam.dim) if beam.dim in source.dims else source
    for dim in source.dims:
        lengths = dim.dyn_size_ext if beam.dim in _length_dims(dim) else None
        if lengths is None:
            continue
        new_dim = layer.new_dim(decided_key(dim))
        new_dim.dyn_size_ext = rf.gather(lengths, indices=index, axis=beam.dim)
        out = with_time_dim(out, dim, new_dim)
    return out


def decided_key(dim: Dim) -> str:
    """:return: of the dim that a layer has in place of this one, when it has decided"""
    return f"decided:{dim.name}"


def with_time_dim(x: Tensor, old: Dim, new: Dim) -> Tensor:
    """
    :param x: {..., old}
    :param new: at most as long as `old`
    :return: {..., new}, without the frames that are beyond the end of all sequences
    """
    axis = x.get_axis_from_description(old)
    out = x.copy_template_replace_dim_tag(axis, new)
    if x.raw_tensor is not None:
        index = [slice(None)] * axis + [slice(0, new.get_dim_value())]
        out.raw_tensor = x.raw_tensor[tuple(index)]
    return out


def scores_of(layer: LayerBase, source: Tensor, beam: Beam) -> Tensor:
    """:return: [B, beam]"""
    frame = layer.network.step.innermost_frame()
    scores = frame.scores_before() if frame is not None and beam.choice is None else beam.scores
    if scores is None and get_selected_backend() == "template":
        return _template_of_beam(source, beam, score_dtype())
    if scores is None:
        raise ConfigError(f"{layer.where()}: the scores of {beam.dim} are not known here.")
    return scores


def _template_of_beam(source: Tensor, beam: Beam, dtype: str) -> Tensor:
    dims = [dim for dim in source.dims if dim.is_batch_dim() or dim == beam.dim]
    return Tensor("beam", dims=dims, dtype=dtype)


def _beam_of(layer: LayerBase, source: Tensor) -> Beam:
    beam = layer.network.beams.of(source)
    if beam is None:
        raise ConfigError(f"{layer.where()}: the source {source} comes from no search.")
    return beam


def _length_dims(dim: Dim) -> tuple[Dim, ...]:
    lengths = None if dim.size is not None else dim.dyn_size_ext
    return () if lengths is None else lengths.dims
