"""Alignments of frames to labels: soft ones over all paths, and the best path."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.config.option_types import check_type
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.layer_base import InternalLayer, LayerBase
from returnn.tf.layers.core.sources import _ConcatInputLayer
from returnn.tf.layers.options.blank_class import blank_class, warn_of_shifted_labels
from returnn.tf.layers.options.input_type import input_type_warning
from returnn.tf.layers.values.length import raw_lengths
from returnn.tf.sprint import get_sprint_automata_for_batch_op
from returnn.tf.util.losses.fsa import Fsa, best_paths, ctc_fsa, fsa_of_edges, posteriors, staircase_fsa
from returnn.tf.util.safe_math import safe_log
from returnn.util.errors import ConfigError, check_known
from returnn.util.texts.counted import counted

_INPUT_TYPES = ("log_prob", "prob")
_CTC_OPTS = {"blank_idx": int, "label_loop": bool}


class FastBaumWelchLayer(_ConcatInputLayer):
    """
    The probability of each class in each frame, over all paths through an automaton, by the Baum-Welch algorithm.

    Source [B, T, F] with scores of the classes, output the same. `output_loss` is [B], the negative log of the sum over
    all paths. There is no gradient. A sequence without a path, as its labels need more frames, has probabilities of 0,
    and the loss is infinite.
    """

    layer_class = "fast_bw"
    recurrent = True

    def __init__(
        self,
        align_target: str,
        align_target_key: str | None = None,
        ctc_opts: dict[str, Any] | None = None,
        sprint_opts: dict[str, Any] | None = None,
        input_type: str = "log_prob",
        tdp_scale: float = 1.0,
        am_scale: float = 1.0,
        min_prob: float = 0.0,
        staircase_seq_len_source: LayerBase | None = None,
        **kwargs: Any,
    ) -> None:
        """
        :param align_target: "ctc": labels and blank; "sprint": the automata come from RASR; "staircase": the classes in
            their order
        :param align_target_key: key of the data with the labels, for "ctc"
        :param ctc_opts: "blank_idx", default: the last class; negative: counted from the end; and "label_loop": whether
            a label can last several frames
        :param sprint_opts: how to start RASR: "sprintExecPath", "sprintConfigStr", "numInstances", ..., see
            `SprintInstancePool`
        :param input_type: "log_prob" or "prob"
        :param tdp_scale: scale of the scores which the automata of RASR have
        :param am_scale: scale of the log probabilities
        :param min_prob: probabilities are at least this
        :param staircase_seq_len_source: layer, as long as which the staircase is
        """
        super().__init__(**kwargs)
        check_known("align_target", align_target, ("ctc", "sprint", "staircase"), where=self.where())
        check_known("input_type", input_type, _INPUT_TYPES, where=self.where())
        for option in ctc_opts or {}:
            check_known("option of 'ctc_opts'", option, _CTC_OPTS, where=self.where())
            check_type(option, ctc_opts[option], _CTC_OPTS[option], where=f"{self.where()}: option 'ctc_opts'")
        if min_prob < 0:
            raise ConfigError(f"{self.where()}: option 'min_prob': expected at least 0, got {min_prob}.")
        needed = {"ctc": align_target_key, "sprint": sprint_opts, "staircase": staircase_seq_len_source}[align_target]
        if needed is None:
            name = {"ctc": "align_target_key", "sprint": "sprint_opts", "staircase": "staircase_seq_len_source"}
            raise ConfigError(f"{self.where()}: option {name[align_target]!r} is required for {align_target!r}.")
        self.align_target = align_target
        self.align_target_key = align_target_key
        self.ctc_opts = ctc_opts or {}
        self.sprint_opts = sprint_opts
        self.input_type = input_type
        self.tdp_scale = tdp_scale
        self.am_scale = am_scale
        self.min_prob = min_prob
        self.staircase_seq_len_source = staircase_seq_len_source

    def compute(self, source: Tensor) -> Tensor:
        """:return: [T, B, F]"""
        frames = _Frames.of(self, source)
        self.warning = input_type_warning(self, self.input_type, _INPUT_TYPES)
        output = Tensor(self.name, dims=frames.dims, dtype=source.dtype, feature_dim=frames.classes)
        labels, blank = self.aligned_labels(), self.blank_of(frames.classes)
        if labels is not None:
            self._check_number(labels, frames)
        self.output_loss = Tensor("loss", dims=[frames.batch], dtype=source.dtype)
        if source.raw_tensor is None:
            return output
        scores = tf.stop_gradient(_log_scores(source, self.input_type, self.min_prob, frames)) * self.am_scale
        output.raw_tensor, total = posteriors(scores, self._automata(frames, labels, blank), frames.mask())
        self.output_loss.raw_tensor = -total
        self.is_without_path = rf.is_infinite(self.output_loss)
        return output

    def aligned_labels(self) -> Tensor | None:
        """:return: [B, S], for CTC"""
        if self.align_target != "ctc":
            return None
        labels: Tensor = self.network.get_extern_data(self.align_target_key)
        _check_labels(self, labels, option="align_target_key")
        return labels

    def has_label_loop(self) -> bool:
        """:return: whether a label can last several frames, for CTC"""
        return bool(self.ctc_opts.get("label_loop", True))

    def _check_number(self, labels: Tensor, frames: _Frames) -> None:
        if labels.sparse_dim.dimension > frames.classes.dimension:
            raise ConfigError(
                f"{self.where()}: option 'align_target_key': {self.align_target_key!r} has"
                f" {counted(labels.sparse_dim.dimension, 'label')}, the source"
                f" {counted(frames.classes.dimension, 'class')}."
            )

    def blank_of(self, classes: Dim) -> int:
        """:return: the class of blank, for CTC"""
        index, where = self.ctc_opts.get("blank_idx", -1), f"{self.where()}: 'ctc_opts'"
        return blank_class(index, classes.get_dim_value(), option="blank_idx", where=where)

    def _automata(self, frames: _Frames, labels: Tensor | None, blank: int) -> Fsa:
        if self.align_target == "sprint":
            assert self.sprint_opts is not None
            tags = self.network.get_seq_tags()
            edges, weights, start_end_states = get_sprint_automata_for_batch_op(self.sprint_opts, tags)
            return fsa_of_edges(edges, weights * self.tdp_scale, start_end_states)
        if self.align_target == "staircase":
            assert self.staircase_seq_len_source is not None
            length = self.staircase_seq_len_source.output.get_time_dim_tag().get_size_tensor()
            return staircase_fsa(length.copy_compatible_to_dims_raw([frames.batch]))
        assert labels is not None
        return ctc_fsa(*_raw_labels(labels), blank=blank, label_loop=self.has_label_loop())


class ForcedAlignmentLayer(_ConcatInputLayer):
    """
    The class in each frame on the best path through the labels, by the Viterbi algorithm.

    Source [B, T, F] with scores of the labels and blank, output [B, T], sparse. The sub layer "scores" is [B], the log
    probability of the path, and `output_loss` its negative. There is no gradient.

    A sequence without a path, as its labels need more frames, has the score -inf, and its output is no alignment: some
    class in each frame, mostly 0. Tasks say how many these are, and name one. Who trains on the alignments has to leave
    them out, as docs/tutorial/alignments.md does.
    """

    layer_class = "forced_align"

    def __init__(
        self,
        align_target: LayerBase,
        topology: str,
        input_type: str,
        blank_idx: int = -1,
        blank_included: bool = False,
        **kwargs: Any,
    ) -> None:
        """
        :param align_target: [B, S], labels
        :param topology: "ctc": labels can last several frames; "rna": each label is one frame
        :param input_type: "log_prob" or "prob"
        :param blank_idx: the class for blank; negative: counted from the end
        :param blank_included: the labels have a class for blank; otherwise, the output has one class more
        """
        super().__init__(**kwargs)
        check_known("topology", topology, ("ctc", "rna"), where=self.where())
        check_known("input_type", input_type, _INPUT_TYPES, where=self.where())
        self.align_target = align_target
        self.topology = topology
        self.input_type = input_type
        self.blank_idx = blank_idx
        self.blank_included = blank_included
        self._scores: Tensor | None = None

    def compute(self, source: Tensor) -> Tensor:
        """:return: [T, B]"""
        frames = _Frames.of(self, source)
        self.warning = input_type_warning(self, self.input_type, _INPUT_TYPES)
        labels = self.aligned_labels()
        blank = self.blank_of(frames.classes)
        output = Tensor(self.name, dims=frames.dims[:2], dtype="int32", sparse_dim=self._sparse_dim(labels, frames))
        self.output_loss = Tensor("loss", dims=[frames.batch], dtype=source.dtype)
        if source.raw_tensor is None:
            return output
        automata = ctc_fsa(*_raw_labels(labels), blank=blank, label_loop=self.has_label_loop())
        scores = tf.stop_gradient(_log_scores(source, self.input_type, 0.0, frames))
        output.raw_tensor, total = best_paths(scores, automata, frames.mask())
        self.output_loss.raw_tensor = -total
        self.is_without_path = rf.is_infinite(self.output_loss)
        return output

    def aligned_labels(self) -> Tensor:
        """:return: [B, S]"""
        labels: Tensor = self.align_target.output
        _check_labels(self, labels, option="align_target")
        return labels

    def blank_of(self, classes: Dim) -> int:
        """:return: the class of blank"""
        return blank_class(self.blank_idx, classes.get_dim_value(), option="blank_idx", where=self.where())

    def has_label_loop(self) -> bool:
        """:return: whether a label can last several frames"""
        return self.topology == "ctc"

    @classmethod
    def get_available_sub_layer_names(cls, parent_layer_kwargs: dict[str, Any]) -> list[str]:
        """:return: "scores" """
        return ["scores"]

    def get_sub_layer(self, layer_name: str) -> LayerBase | None:
        """:return: layer with the log probability of the path, [B]"""
        if layer_name != "scores":
            return None
        with self.network.construction.compute_scope(self, suffix=layer_name):
            scores = rf.neg(self.output_loss)
        return InternalLayer(name=f"{self.name}/scores", network=self.network, output=scores)

    def _sparse_dim(self, labels: Tensor, frames: _Frames) -> Dim:
        expected = labels.sparse_dim if self.blank_included else labels.sparse_dim + 1
        if expected.dimension != frames.classes.dimension:
            raise ConfigError(
                f"{self.where()}: the source has {frames.classes.dimension} classes, but the labels with blank are "
                f"{expected.dimension}.\n  Source: {frames.dims}, labels: {labels}.\n"
                "  'blank_included': whether one of the labels is blank, 'blank_idx', and in no target."
            )
        source, option = f"{self.where()}: the source", "'blank_idx' (with 'blank_included')"
        warn_of_shifted_labels(self.blank_idx, frames.classes, labels.sparse_dim, source=source, option=option)
        return frames.classes


class _Frames:
    """The dims of frames with scores of classes."""

    def __init__(self, time: Dim, batch: Dim, classes: Dim) -> None:
        self.time, self.batch, self.classes = time, batch, classes
        self.dims = [time, batch, classes]

    @classmethod
    def of(cls, layer: LayerBase, source: Tensor) -> _Frames:
        """:raises ConfigError: if the source has other dims than batch, time and feature"""
        if not (source.have_batch_axis() and source.have_time_axis() and source.feature_dim and len(source.dims) == 3):
            raise ConfigError(f"{layer.where()}: the source has to have batch, time and feature dim, not {source}.")
        return cls(source.get_time_dim_tag(), source.get_batch_dim_tag(), source.feature_dim)

    def mask(self) -> tf.Tensor:
        """:return: (T, B)"""
        mask = self.time.get_mask(dim_order=[self.time, self.batch])
        return mask.copy_compatible_to_dims([self.time, self.batch], unbroadcast=True).raw_tensor


def _log_scores(source: Tensor, input_type: str, min_prob: float, frames: _Frames) -> tf.Tensor:
    """:return: (T, B, F), log probabilities"""
    raw = source.copy_transpose(frames.dims).raw_tensor
    if input_type == "prob":
        return safe_log(tf.maximum(raw, min_prob) if min_prob else raw)
    return tf.maximum(raw, tf.math.log(min_prob)) if min_prob else raw


def _check_labels(layer: LayerBase, labels: Tensor, *, option: str) -> None:
    """:raises ConfigError: if these are not the labels of sequences"""
    if not (labels.sparse and labels.have_batch_axis() and labels.have_time_axis() and len(labels.dims) == 2):
        raise ConfigError(f"{layer.where()}: option {option!r}: expected labels, [B, S] and sparse, got {labels}.")


def _raw_labels(labels: Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """:return: (B, S), (B,)"""
    time, batch = labels.get_time_dim_tag(), labels.get_batch_dim_tag()
    return tf.cast(labels.copy_transpose([batch, time]).raw_tensor, tf.int32), raw_lengths(time, batch)
