"""Losses and errors that compare whole sequences of labels: CTC, edit distance, BLEU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import tensorflow as tf

import returnn.frontend as rf
from returnn.config.current import current_config
from returnn.tensor import Dim, Tensor
from returnn.tf.frontend_low_level.kernels.native import has_operations
from returnn.tf.layers.core.loss import Loss
from returnn.tf.layers.losses.ctc_lengths import check_targets_fit
from returnn.tf.layers.options.blank_class import (
    are_labels_and_blank,
    blank_class,
    other_classes_than_labels,
    warn_of_shifted_labels,
)
from returnn.tf.util.labels import bleu_of_labels, collapse_repeated, map_labels
from returnn.tf.util.losses.ctc_search import best_path, best_prefixes
from returnn.tf.util.safe_math import safe_log
from returnn.util.behavior_version import BehaviorVersion
from returnn.util.errors import ConfigError, check_known

tf1 = tf.compat.v1
_IGNORE_LONGER = "ignore_longer_outputs_than_inputs"


class SequenceLoss(Loss):
    """Base class of losses with one value for each sequence of labels in the target."""

    recurrent = True
    has_values_of_frames = False

    def _with_frames(self) -> Tensor:
        """:return: the target: what counts is the number of labels in it"""
        return self.require_target()

    def time_dim_of(self, x: Tensor) -> Dim:
        """:return: the dim of its sequences"""
        dims = [dim for dim in x.dims if dim.is_dynamic_seq_length() and not dim.is_batch_dim()]
        if len(dims) == 1:
            return dims[0]
        if not x.have_time_axis():
            raise ConfigError(f"{self.where()}: {x} has no time dim.")
        return x.get_time_dim_tag()

    def check_dims(self, output: Tensor, target: Tensor) -> None:
        """
        :param output: of the layer, or a template of it
        :param target: as the layer has it, or a template
        :raises ConfigError: if they do not fit to the loss
        """
        if not target.sparse:
            raise ConfigError(f"{self.where()}: the target has to be sparse, not {target}.")

    def _check_is_sparse(self, output: Tensor, *, hint: str = "") -> None:
        if not output.sparse:
            raise ConfigError(f"{self.where()}: the output has to be sparse, not {output}.{hint}")

    def _check_is_of_classes(self, output: Tensor) -> None:
        """:raises ConfigError: if there are dims beside batch, time and classes"""
        if output.feature_dim is None or output.batch_dim_axis is None:
            raise ConfigError(f"{self.where()}: the output has to be [B, T, F], but it is {output}.")
        expected = (_batch_dim_of(output), self.time_dim_of(output), output.feature_dim)
        others = [dim for dim in output.dims if dim not in expected]
        if others:
            raise ConfigError(
                f"{self.where()}: the output has to be [B, T, F], but it is {output}, with the further "
                f"{'dim' if len(others) == 1 else 'dims'} {', '.join(map(str, others))}.\n"
                "  'merge_dims' makes such a dim a part of the features of a source, 'reduce' the mean."
            )

    def log_prob_of_output(self, *, in_log_space: bool) -> Tensor:
        """
        :param in_log_space: whether the output has logarithms already
        :return: [B, T, F]: logits, or log probabilities, which are logits, too
        """
        act = self.output_with_activation
        if act is not None and act.before is not None and (act.is_softmax_act_func() or act.is_log_softmax_act_func()):
            return act.before
        if in_log_space:
            return self.output
        out = self.output.copy()
        out.raw_tensor = safe_log(self.output.raw_tensor)
        return out

    def edit_distance_after_decoding(self, logits: Tensor, *, beam_width: int, blank: int) -> Tensor:
        """
        :param logits: [B, T, F]
        :param beam_width: 1 for the best path
        :param blank: its class
        :return: [B]: edit distance between what CTC decodes and the target
        """
        time_dim, batch, target = self.time_dim_of(logits), _batch_dim_of(logits), self.require_target()
        raw = logits.copy_transpose([batch, time_dim, logits.feature_dim]).raw_tensor
        num_frames = time_dim.get_dyn_size_ext_for_device("cpu").copy_compatible_to_dims_raw([batch])
        if beam_width == 1:
            labels, num_labels = best_path(raw, num_frames, blank=blank)
        else:
            found, lengths, _ = best_prefixes(raw, num_frames, beam_size=beam_width, blank=blank)
            labels, num_labels = found[:, 0], lengths[:, 0]
        found_dim = Dim(Tensor("num_labels", dims=[batch], dtype="int32", raw_tensor=num_labels), name="labels")
        found = Tensor("decoded", dims=[batch, found_dim], dtype="int32", raw_tensor=labels)
        distance = rf.edit_distance(found, found_dim, rf.cast(target, "int32"), self.time_dim_of(target))
        return rf.cast(distance, "float32")

    def _time_major(self, x: Tensor) -> tf.Tensor:
        """:return: (T, B, F)"""
        return x.copy_transpose([self.time_dim_of(x), _batch_dim_of(x), x.feature_dim]).raw_tensor

    def _sparse(self, labels: Tensor) -> tf.SparseTensor:
        """:return: (B, T), without padding"""
        time_dim = self.time_dim_of(labels)
        labels = labels.copy_transpose([_batch_dim_of(labels), time_dim])
        mask = time_dim.get_mask(dim_order=labels.dims).copy_transpose(labels.dims).raw_tensor
        raw = tf.cast(labels.raw_tensor, tf.int32)
        return tf.SparseTensor(tf.where(mask), tf.boolean_mask(raw, mask), tf.cast(tf.shape(raw), tf.int64))


@dataclass(frozen=True)
class OwnCtcOptions:
    """The option `ctc_opts` of `CtcLoss` for the own implementation."""

    label_loop: bool | None = None  # whether a label can last several frames. Default: True
    ctc_merge_repeated: bool | None = None  # the same, as TensorFlow calls it
    logits_normalize: bool = True  # otherwise, the output of the layer has log probabilities
    grad_wrt_softmax_in: bool = True  # also without `logits_normalize`, the gradient is that of a softmax's input
    blank_index: int = -1  # negative: counted from the end
    zero_infinity: bool | None = None  # no gradient if there is no alignment, see `has_zero_for_infinity`

    @classmethod
    def names(cls) -> list[str]:
        """:return: of all options"""
        return [field.name for field in fields(cls)]

    def has_label_loop(self) -> bool:
        """:return: whether a label can last several frames"""
        given = [option for option in (self.label_loop, self.ctc_merge_repeated) if option is not None]
        if given == [True, False] or given == [False, True]:
            raise ConfigError("loss 'ctc': 'ctc_opts': 'label_loop' and 'ctc_merge_repeated' contradict each other.")
        return given[0] if given else True

    def has_zero_for_infinity(self) -> bool:
        """
        :return: whether there is no gradient if there is no alignment; the loss is 0 then in any case. Default: as the
            option `tf_native_ctc_zero_infinity` of the config says, or since behavior version 30
        """
        if self.zero_infinity is not None:
            return self.zero_infinity
        config = current_config()
        by_config = config.options.tf_native_ctc_zero_infinity if config is not None else None
        return BehaviorVersion.get() >= 30 if by_config is None else by_config


class CtcLoss(SequenceLoss):
    """
    CTC (Graves et al. 2006): negative log probability of the target, over all alignments with the output.

    The output has one class more than the target, the last one, for blank. With `use_native` or `use_viterbi`, the
    "blank_index" of `ctc_opts` can name a label instead, which then is in no target: the output has as many classes as
    the target, and each label is the class of the same index. The error is the edit distance between the decoded
    output and the target.
    """

    class_name = "ctc"

    def __init__(
        self,
        target_collapse_repeated: bool = False,
        auto_clip_target_len: bool = False,
        output_in_log_space: bool = False,
        beam_width: int = 100,
        ctc_opts: dict[str, Any] | None = None,
        use_native: bool = False,
        use_viterbi: bool = False,
        **kwargs: Any,
    ) -> None:
        """
        :param target_collapse_repeated: merge repeated labels of the target first
        :param auto_clip_target_len: cut the target where it is longer than the output
        :param output_in_log_space: the output has log probabilities
        :param beam_width: of the decoder for the error; 1: only the best path
        :param ctc_opts: options of `tf.compat.v1.nn.ctc_loss`: "preprocess_collapse_repeated", "ctc_merge_repeated",
            "ignore_longer_outputs_than_inputs"; with `use_native` or `use_viterbi`, see `OwnCtcOptions`
        :param use_native: the own implementation: where there is no alignment, as the target needs more frames, the
            loss is 0, and no error. A training says for each epoch how many sequences these are
        :param use_viterbi: the own implementation, with the best alignment alone, instead of all
        """
        super().__init__(**kwargs)
        if use_native and use_viterbi:
            raise ConfigError("loss 'ctc': 'use_native' and 'use_viterbi' exclude each other.")
        self.target_collapse_repeated = target_collapse_repeated
        self.auto_clip_target_len = auto_clip_target_len
        self.output_in_log_space = output_in_log_space
        self.beam_width = beam_width
        self.ctc_opts = dict(ctc_opts or {})
        self.use_native = use_native
        self.use_viterbi = use_viterbi
        self._check_options()

    def takes_probabilities(self) -> bool:
        """:return: as `output_in_log_space` says"""
        return not self.output_in_log_space

    def _check_options(self) -> None:
        known: Sequence[str] = ("preprocess_collapse_repeated", "ctc_merge_repeated", _IGNORE_LONGER)
        if self.use_native or self.use_viterbi:
            known = OwnCtcOptions.names()
        for name in self.ctc_opts:
            check_known("option", name, known, where="loss 'ctc': 'ctc_opts'")

    @classmethod
    def get_auto_output_layer_dim(cls, target_dim: Dim) -> Dim:
        """:return: one class more, for blank"""
        return target_dim + 1

    def init(self, output: Tensor, target: Tensor | None = None, **kwargs: Any) -> None:
        """See `Loss.init`. The target is changed as the options say."""
        super().init(output=output, target=target, **kwargs)
        target = self.require_target()
        super().check_dims(output, target)
        if self.target_collapse_repeated:
            target = collapse_repeated(target)
        if self.auto_clip_target_len:
            target = _clipped(target, self.time_dim_of(target), self.time_dim_of(output))
        self.target = target

    def get_output_logits(self) -> Any:
        """:return: raw (T, B, F)"""
        return self._time_major(self._logits())

    def get_soft_alignment(self) -> Any:
        """:return: raw (T, B, F): probability of each label in each frame, over all alignments with the target"""
        scores = rf.log_softmax(self._logits(), axis=self.require_axis(), use_mask=False)
        loss = self._negative_log_prob(scores, self._own_options(), normalized=True)
        (gradient,) = tf.gradients(tf.reduce_sum(without_infinity(loss).raw_tensor), scores.raw_tensor)
        out = scores.copy()
        out.raw_tensor = -gradient
        return self._time_major(out)

    def check_dims(self, output: Tensor, target: Tensor) -> None:
        """:raises ConfigError: if there are other dims than batch, time and classes, or no class for blank"""
        super().check_dims(output, target)
        self._check_is_of_classes(output)
        num_classes = output.feature_dim.dimension
        num_labels = None if target.sparse_dim is None else target.sparse_dim.dimension
        if None in (num_classes, num_labels):
            return
        self.blank_of(output.feature_dim)
        index, option = self._own_options().blank_index, "'blank_index' (in 'ctc_opts', with 'use_native')"
        source = f"{self.where()}: the output"
        if num_labels >= num_classes and not are_labels_and_blank(index, num_classes, num_labels):
            what = other_classes_than_labels(index, num_classes, num_labels, target="the target", option=option)
            raise ConfigError(f"{source} has {what}")
        warn_of_shifted_labels(index, output.feature_dim, target.sparse_dim, source=source, option=option)

    def value_per_frame(self) -> Tensor:
        """:return: [B]"""
        self.check_dims(self.output, self.require_target())
        logits = self._logits()
        if self.use_native or self.use_viterbi:
            return self._own(logits)
        with tf.control_dependencies(self._checks_of_lengths(logits)):
            return self._by_kernel(logits) if self._has_kernel(logits) else self._of_tensorflow(logits)

    def if_too_long(self) -> Literal["error", "zero", "cut"]:
        """:return: what a sequence without an alignment is: an error, or by options, it is cut, or its loss is 0"""
        if self.auto_clip_target_len or self.target_collapse_repeated:
            return "cut"
        if self.ctc_opts.get("preprocess_collapse_repeated", False):
            return "cut"
        is_own = self.use_native or self.use_viterbi
        return "zero" if is_own or self.ctc_opts.get(_IGNORE_LONGER, False) else "error"

    def has_label_loop(self) -> bool:
        """:return: whether a label can last several frames, so that a blank has to be between two of the same"""
        if self.use_native or self.use_viterbi:
            return self._own_options().has_label_loop()
        return bool(self.ctc_opts.get("ctc_merge_repeated", True))

    def _checks_of_lengths(self, logits: Tensor) -> list[tf.Operation]:
        """:return: what fails if there is no alignment, unless options say that such a sequence does not count"""
        is_fine = any(self.ctc_opts.get(name, False) for name in (_IGNORE_LONGER, "preprocess_collapse_repeated"))
        if is_fine or self.layer is None:
            return []
        target = self.require_target()
        opts = {"ctc_opts": {_IGNORE_LONGER: True}}
        hint = f"Longer frames, 'max_seq_length', or 'loss_opts': {opts}, which leaves it out."
        check = check_targets_fit(
            self.layer,
            target,
            self.time_dim_of(target),
            self.time_dim_of(logits),
            label_loop=self.has_label_loop(),
            where=self.where(),
            hint=hint,
        )
        return [check]

    def error_per_frame(self) -> Tensor:
        """:return: [B]"""
        logits = self._logits()
        return self.edit_distance_after_decoding(
            logits, beam_width=self.beam_width, blank=self.blank_of(self.require_axis())
        )

    def _logits(self) -> Tensor:
        return self.log_prob_of_output(in_log_space=self.output_in_log_space)

    def _own(self, logits: Tensor) -> Tensor:
        options = self._own_options()
        value = self._noted(self._negative_log_prob(logits, options, normalized=not options.logits_normalize))
        if not options.has_zero_for_infinity() and options.logits_normalize:
            value = zero_with_gradient_of_softmax(value, logits, self.require_axis(), self.time_dim_of(logits))
        elif not options.has_zero_for_infinity():
            value = without_infinity(value)
        if not options.logits_normalize and options.grad_wrt_softmax_in:
            value = value + _zero_with_gradient_of_softmax(logits, self.require_axis(), self.time_dim_of(logits))
        return without_infinity(value) if options.has_zero_for_infinity() else value

    def _own_options(self) -> OwnCtcOptions:
        return OwnCtcOptions(**self.ctc_opts) if self.use_native or self.use_viterbi else OwnCtcOptions()

    def blank_of(self, classes: Dim) -> int:
        """:return: the class of blank, for the loss and for the error"""
        index = self._own_options().blank_index
        return blank_class(index, classes.get_dim_value(), option="blank_index", where=self.where())

    def _negative_log_prob(self, logits: Tensor, options: OwnCtcOptions, *, normalized: bool) -> Tensor:
        target = self.require_target()
        return rf.ctc_loss(
            logits=logits,
            logits_normalized=normalized,
            targets=target,
            input_spatial_dim=self.time_dim_of(logits),
            targets_spatial_dim=self.time_dim_of(target),
            blank_index=self.blank_of(self.require_axis()),
            max_approx=self.use_viterbi,
            label_loop=options.has_label_loop(),
        )

    def _has_kernel(self, logits: Tensor) -> bool:
        """:return: whether it gives what the operation of TensorFlow does, which can merge repeated targets"""
        merges = self.ctc_opts.get("preprocess_collapse_repeated", False)
        return has_operations(logits.dtype) and self.layer is not None and not merges

    def _by_kernel(self, logits: Tensor) -> Tensor:
        options = OwnCtcOptions(label_loop=self.has_label_loop())
        return without_infinity(self._noted(self._negative_log_prob(logits, options, normalized=False)))

    def _noted(self, value: Tensor) -> Tensor:
        if self.layer is not None:
            self.layer.num_uncounted_seqs = num_infinite(value)
        return value

    def _of_tensorflow(self, logits: Tensor) -> Tensor:
        target = self.require_target()
        time_dim = self.time_dim_of(logits)
        value = tf1.nn.ctc_loss(
            inputs=self._time_major(logits),
            labels=self._sparse(target),
            sequence_length=time_dim.get_dyn_size_ext_for_device("cpu").raw_tensor,
            time_major=True,
            **self.ctc_opts,
        )
        return Tensor("ctc", dims=[_batch_dim_of(target)], dtype="float32", raw_tensor=value)


class EditDistanceLoss(SequenceLoss):
    """No loss, only an error: the edit distance between the labels in the output and the target."""

    class_name = "edit_distance"

    def __init__(
        self,
        debug_print: bool = False,
        label_map: Mapping[int, int] | None = None,
        ctc_decode: bool = False,
        output_in_log_space: bool = False,
        **kwargs: Any,
    ) -> None:
        """
        :param debug_print: print both sequences
        :param label_map: labels which count as others, in output and target; all labels have to be in it
        :param ctc_decode: the output has probabilities of CTC, with blank as last class; take the best path
        :param output_in_log_space: the output has log probabilities
        """
        super().__init__(**kwargs)
        self._debug_print = debug_print
        self._label_map = label_map
        self._ctc_decode = ctc_decode
        self._output_in_log_space = output_in_log_space
        if output_in_log_space and not ctc_decode:
            raise ConfigError("loss 'edit_distance': 'output_in_log_space' is only for 'ctc_decode'.")

    @classmethod
    def get_auto_output_layer_dim(cls, target_dim: Dim) -> Dim:
        """:return: the dim of the target; with `ctc_decode`, the config has to give it"""
        return target_dim

    def init(self, output: Tensor, target: Tensor | None = None, **kwargs: Any) -> None:
        """See `Loss.init`. Labels are mapped."""
        super().init(output=output, target=target, **kwargs)
        if target is not None:
            self.check_dims(output, target)
        if self._label_map:
            self.target = map_labels(self.require_target(), self._label_map)
            if output.sparse:
                self.output = map_labels(self.output, self._label_map)

    def check_dims(self, output: Tensor, target: Tensor) -> None:
        """:raises ConfigError: if these are no labels; with `ctc_decode`, if the output is not [B, T, F]"""
        super().check_dims(output, target)
        if self._ctc_decode:
            self._check_is_of_classes(output)
        else:
            self._check_is_sparse(output, hint="\n  For probabilities: 'ctc_decode'.")

    def get_output_logits(self) -> Any:
        """:return: raw (T, B, F)"""
        return self._time_major(self._logits())

    def value_per_frame(self) -> None:
        """:return: there is none"""
        return

    def error_per_frame(self) -> Tensor:
        """:return: [B], or with the beam"""
        if self._ctc_decode:
            logits = self._logits()
            return self.edit_distance_after_decoding(logits, beam_width=1, blank=logits.feature_dim.get_dim_value() - 1)
        output, target = self.output, self.require_target()
        if self._debug_print:
            output = _printed(output, target, self.where())
        distance = rf.edit_distance(
            rf.cast(output, "int32"), self.time_dim_of(output), rf.cast(target, "int32"), self.time_dim_of(target)
        )
        return rf.cast(distance, "float32")

    def _logits(self) -> Tensor:
        return self.log_prob_of_output(in_log_space=self._output_in_log_space)


class BleuLoss(SequenceLoss):
    """No loss, only an error: minus the BLEU score of each sequence."""

    class_name = "bleu"

    def check_dims(self, output: Tensor, target: Tensor) -> None:
        """:raises ConfigError: if these are no labels"""
        super().check_dims(output, target)
        self._check_is_sparse(output)

    def value_per_frame(self) -> None:
        """:return: there is none"""
        return

    def error_per_frame(self) -> Tensor:
        """:return: [B]"""
        self.check_dims(self.output, self.require_target())
        return rf.neg(bleu_of_labels(self.output, self.require_target()))


def without_infinity(loss: Tensor) -> Tensor:
    """:return: loss; where there is no alignment at all, 0 with gradient 0"""
    return rf.where(rf.is_finite(loss), loss, 0.0)


def num_infinite(loss: Tensor) -> Tensor:
    """:return: scalar, int32: how many sequences have no alignment at all"""
    return rf.reduce_sum(rf.cast(rf.logical_not(rf.is_finite(loss)), "int32"), axis=loss.dims)


def zero_with_gradient_of_softmax(loss: Tensor, logits: Tensor, axis: Dim, time_dim: Dim) -> Tensor:
    """
    :param loss: [B]
    :param logits: [B, T, F]
    :param axis: F
    :param time_dim: T
    :return: loss; where there is no alignment at all, 0. There the gradient, softmax minus alignment, is the softmax:
        so it was recorded
    """
    zero = _zero_with_gradient_of_softmax(logits, axis, time_dim)
    return rf.where(rf.is_finite(loss), loss, zero)


def _zero_with_gradient_of_softmax(logits: Tensor, axis: Dim, time_dim: Dim) -> Tensor:
    total = rf.reduce_sum(rf.reduce_logsumexp(logits, axis=axis, use_mask=False), axis=time_dim)
    return total - rf.stop_gradient(total)


def _batch_dim_of(x: Tensor) -> Dim:
    assert x.batch_dim_axis is not None
    return x.dims[x.batch_dim_axis]


def _clipped(target: Tensor, target_time: Dim, output_time: Dim) -> Tensor:
    """:return: target, at most as long as the output"""
    lengths = rf.minimum(target_time.get_size_tensor(), output_time.get_size_tensor())
    clipped = Dim(lengths, name="clipped")
    return rf.slice(target, axis=target_time, size=clipped)[0]


def _printed(output: Tensor, target: Tensor, where: str) -> Tensor:
    dump = tf.print(where, "output:", output.raw_tensor, "target:", target.raw_tensor, summarize=-1)
    out = output.copy()
    with tf.control_dependencies([dump]):
        out.raw_tensor = tf.identity(output.raw_tensor)
    return out
