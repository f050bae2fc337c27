"""
Alignments and edit distances by the kernels of `returnn.native`, on raw tensors.

Each function gives None where there is no kernel for the type, or on this machine; its caller has operations of
TensorFlow.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from returnn.tf.frontend_low_level.kernels.native import get_operations, has_operations


def ctc_loss(
    logits: tf.Tensor,
    targets: tf.Tensor,
    num_frames: tf.Tensor,
    num_labels: tf.Tensor,
    *,
    blank: int,
    label_loop: bool,
    normalized: bool,
    time_major: bool,
    max_approx: bool,
) -> tf.Tensor | None:
    """
    :param logits: (B, T, C), or (T, B, C)
    :param targets: (B, S)
    :param num_frames: (B,)
    :param num_labels: (B,)
    :param blank: class
    :param label_loop: whether a label can stay for several frames
    :param normalized: the logits are log probabilities
    :param time_major: whether the frames are the first axis
    :param max_approx: only the best path counts
    :return: (B,), infinite, with gradient 0, where there is no path
    """
    if not _is_known(blank) or not has_operations(logits.dtype):
        return None
    inputs = _ctc_inputs(logits, targets, num_frames, num_labels)
    options = {"blank": blank, "label_loop": label_loop, "normalized": normalized, "time_major": time_major}
    return get_operations().call("ctc_loss", inputs, **options, max_approx=max_approx)["loss"]


def ctc_best_path(
    logits: tf.Tensor,
    targets: tf.Tensor,
    num_frames: tf.Tensor,
    num_labels: tf.Tensor,
    *,
    blank: int,
    label_loop: bool,
    normalized: bool,
    time_major: bool,
) -> tf.Tensor | None:
    """:return: (B, T), or (T, B), int32: class in each frame, 0 in padded ones. For the arguments see `ctc_loss`"""
    if not _is_known(blank) or not has_operations(logits.dtype):
        return None
    inputs = _ctc_inputs(logits, targets, num_frames, num_labels)
    options = {"blank": blank, "label_loop": label_loop, "normalized": normalized, "time_major": time_major}
    return get_operations().call("ctc_best_path", inputs, **options)["path"]


def ctc_beam_search(
    logits: tf.Tensor, num_frames: tf.Tensor, *, blank: int, beam_size: int, num_best: int
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor] | None:
    """
    :param logits: (B, T, C)
    :param num_frames: (B,)
    :param blank: class
    :param beam_size: number of prefixes
    :param num_best: how many of them are wanted
    :return: (B, num_best, T), int32: the best labels, 0 behind the ends; (B, num_best), how many; (B, num_best), log
        probabilities
    """
    operations = get_operations(beside_gpu=True)
    if operations is None or logits.dtype not in (tf.float32, tf.float64):
        return None
    inputs = {"logits": logits, "num_frames": _int32(num_frames), "wanted": tf.zeros([num_best], tf.int32)}
    found = operations.call("ctc_beam_search", inputs, blank=blank, beam_size=beam_size)
    return found["labels"], found["lengths"], found["score"]


def transducer_loss(
    logits: tf.Tensor,
    labels: tf.Tensor,
    num_frames: tf.Tensor,
    num_labels: tf.Tensor,
    *,
    blank: int,
    monotonic: bool,
) -> tf.Tensor | None:
    """
    :param logits: (B, T, U + 1, V)
    :param labels: (B, U)
    :param num_frames: (B,)
    :param num_labels: (B,)
    :param blank: class
    :param monotonic: in each frame one label or a blank, as in RNA; otherwise labels take no frame, as in RNN-T
    :return: (B,), infinite, with gradient 0, where there is no way
    """
    if not _is_known(blank) or not has_operations(logits.dtype):
        return None
    inputs = {"logits": logits, "labels": _int32(labels), "num_frames": _int32(num_frames)}
    inputs["num_labels"] = _int32(num_labels)
    return get_operations().call("transducer_loss", inputs, blank=blank, monotonic=monotonic)["loss"]


def automaton_posteriors(scores: tf.Tensor, mask: tf.Tensor, **automata: tf.Tensor) -> tuple[tf.Tensor, ...] | None:
    """
    :param scores: (T, B, F), log probabilities
    :param mask: (T, B)
    :param automata: the other inputs of the kernel
    :return: (T, B, F), probability of each class; (B,), log of the sum over all paths
    """
    return _of_automaton("automaton_posteriors", ("occupied", "total"), scores, mask, automata)


def automaton_best_paths(scores: tf.Tensor, mask: tf.Tensor, **automata: tf.Tensor) -> tuple[tf.Tensor, ...] | None:
    """:return: (T, B), labels; (B,), log probability. For the arguments see `automaton_posteriors`"""
    return _of_automaton("automaton_best_paths", ("labels", "total"), scores, mask, automata)


def edit_distance(
    a: tf.Tensor, a_lengths: tf.Tensor, b: tf.Tensor, b_lengths: tf.Tensor, *, optimal_completion: bool = False
) -> tf.Tensor | None:
    """
    :param a: (B, T), labels
    :param a_lengths: (B,)
    :param b: (B, U), labels
    :param b_lengths: (B,)
    :param optimal_completion: of `a` with the best labels that could follow
    :return: (B,), int32
    """
    inputs = {"a": a, "a_lengths": a_lengths, "b": b, "b_lengths": b_lengths}
    found = _of_labels("edit_distance", inputs, optimal_completion=optimal_completion)
    return None if found is None else found["distance"]


def edit_distance_table(
    first: tf.Tensor, a: tf.Tensor, a_lengths: tf.Tensor, b: tf.Tensor, *, blank: int | None = None
) -> tf.Tensor | None:
    """
    :param first: (B, U + 1), row before the first label
    :param a: (B, T), labels
    :param a_lengths: (B,)
    :param b: (B, U), labels
    :param blank: with this label, and behind the end of `a`, the row stays as it is
    :return: (B, T, U + 1), int32
    """
    if blank is not None and not _is_known(blank):
        return None
    inputs = {"first": first, "a": a, "a_lengths": a_lengths, "b": b}
    found = _of_labels("edit_distance_table", inputs, blank=-1 if blank is None else blank)
    return None if found is None else found["table"]


def edit_distance_of_successors(
    row: tf.Tensor,
    labels: tf.Tensor,
    ended: tf.Tensor,
    b: tf.Tensor,
    b_lengths: tf.Tensor,
    *,
    blank: int | tf.Tensor | None,
    optimal_completion: bool,
) -> tf.Tensor | None:
    """
    :param row: (B, U + 1), of the table
    :param labels: (B, V), each of them can be the next one
    :param ended: (B,), whether there is none
    :param b: (B, U), labels
    :param b_lengths: (B,)
    :param blank: with this label, the row stays as it is
    :param optimal_completion: with the best labels that could follow
    :return: (B, V), int32
    """
    if blank is not None and not _is_known(blank):
        return None
    inputs = {"row": row, "labels": labels, "b": b, "b_lengths": b_lengths, "ended": tf.cast(ended, tf.uint8)}
    options = {"blank": -1 if blank is None else blank, "optimal_completion": optimal_completion}
    found = _of_labels("edit_distance_of_successors", inputs, **options)
    return None if found is None else found["distances"]


def _is_known(label: Any) -> bool:
    """:return: whether it is a number that the graph can have as an attribute; below 0 would mean that there is none"""
    return isinstance(label, int) and label >= 0


def _int32(x: tf.Tensor) -> tf.Tensor:
    return tf.cast(x, tf.int32)


def _ctc_inputs(
    logits: tf.Tensor, targets: tf.Tensor, num_frames: tf.Tensor, num_labels: tf.Tensor
) -> dict[str, tf.Tensor]:
    return {
        "logits": logits,
        "targets": _int32(targets),
        "num_frames": _int32(num_frames),
        "num_labels": _int32(num_labels),
    }


def _of_automaton(
    kernel: str, results: tuple[str, ...], scores: tf.Tensor, mask: tf.Tensor, automata: dict[str, tf.Tensor]
) -> tuple[tf.Tensor, ...] | None:
    if not has_operations(scores.dtype):
        return None
    inputs = {name: _int32(x) if x.dtype.is_integer else tf.cast(x, scores.dtype) for name, x in automata.items()}
    found = get_operations().call(kernel, {"scores": scores, "mask": tf.cast(mask, tf.uint8), **inputs})
    return tuple(found[name] for name in results)


def _of_labels(kernel: str, inputs: dict[str, tf.Tensor], **options: Any) -> dict[str, tf.Tensor] | None:
    operations = get_operations()
    if operations is None:
        return None
    values = {name: x if name == "ended" else _int32(x) for name, x in inputs.items()}
    return operations.call(kernel, values, **options)
