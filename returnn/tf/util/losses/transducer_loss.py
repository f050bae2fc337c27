"""
Losses of transducers: minus the log probability of all ways in which the frames can yield the labels.

- RNN-T (Graves 2012): in each frame any number of labels, then a blank, which goes on to the next frame.
- RNA (Sak et al. 2017): in each frame one label or a blank.

On raw tensors, by the kernels of `returnn.native` where there are some, or else as loops of TensorFlow, with its
gradients.
"""

from __future__ import annotations

import tensorflow as tf

from returnn.tf.frontend_low_level.kernels import alignments
from returnn.util.errors import ConfigError


def rnnt_loss(
    acts: tf.Tensor, labels: tf.Tensor, input_lengths: tf.Tensor, label_lengths: tf.Tensor, blank_label: int = 0
) -> tf.Tensor:
    """
    :param acts: (B, T, U + 1, V): logits or log probabilities, after so many frames and labels
    :param labels: (B, U)
    :param input_lengths: (B,), number of frames
    :param label_lengths: (B,), number of labels
    :param blank_label: index of the blank
    :return: (B,), natural log; infinite, with gradient 0, where there are no frames for the labels
    :raises ConfigError: if blank is no class
    """
    _check_blank(blank_label, acts)
    found = alignments.transducer_loss(acts, labels, input_lengths, label_lengths, blank=blank_label, monotonic=False)
    return _rnnt_loss_by_loop(acts, labels, input_lengths, label_lengths, blank_label) if found is None else found


def _check_blank(blank_label: int, scores: tf.Tensor) -> None:
    num_classes = scores.shape[-1]
    if isinstance(blank_label, int) and num_classes is not None and not 0 <= blank_label < num_classes:
        raise ConfigError(
            f"transducer loss: 'blank_label' is {blank_label}, but there are {num_classes} classes, "
            f"0 to {num_classes - 1}.\n"
            "  Blank is a class of its own: a layer of labels and blank has one class more than there are labels."
        )


def _rnnt_loss_by_loop(
    acts: tf.Tensor, labels: tf.Tensor, input_lengths: tf.Tensor, label_lengths: tf.Tensor, blank_label: int
) -> tf.Tensor:
    blank, label = _log_probs(acts, labels, blank_label)
    # One step of the loop is a diagonal: all positions with the same number of frames and labels together.
    blank, label = _by_diagonal(blank), _by_diagonal(label)  # (T + U, B, U + 1)

    def step(alpha: tf.Tensor, diagonal: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        blank_here, label_here = diagonal
        return _log_add(alpha + blank_here, _shifted(alpha + label_here))

    alphas = tf.scan(step, (blank, label), initializer=_start(blank[0]))
    alphas = tf.concat([_start(blank[0])[None], alphas], axis=0)  # (T + U + 1, B, U + 1)
    # The last blank is at (T - 1, U), on the diagonal T - 1 + U.
    last = tf.maximum(input_lengths - 1, 0) + label_lengths
    index = tf.stack([last, tf.range(tf.shape(last)[0]), label_lengths], axis=-1)
    total = tf.gather_nd(alphas, index) + tf.gather_nd(blank, index)
    without_frames = tf.where(label_lengths > 0, tf.constant(_NEVER, total.dtype), tf.zeros_like(total))
    return _negative(tf.where(input_lengths > 0, total, without_frames))


def rna_loss(
    log_probs: tf.Tensor, labels: tf.Tensor, input_lengths: tf.Tensor, label_lengths: tf.Tensor, blank_label: int = 0
) -> tf.Tensor:
    """
    :param log_probs: (B, T, U + 1, V): logits or log probabilities, after so many frames and labels
    :param labels: (B, U)
    :param input_lengths: (B,), number of frames
    :param label_lengths: (B,), number of labels
    :param blank_label: index of the blank
    :return: (B,), natural log; infinite, with gradient 0, where there are more labels than frames
    :raises ConfigError: if blank is no class
    """
    _check_blank(blank_label, log_probs)
    found = alignments.transducer_loss(
        log_probs, labels, input_lengths, label_lengths, blank=blank_label, monotonic=True
    )
    return _rna_loss_by_loop(log_probs, labels, input_lengths, label_lengths, blank_label) if found is None else found


def _rna_loss_by_loop(
    log_probs: tf.Tensor, labels: tf.Tensor, input_lengths: tf.Tensor, label_lengths: tf.Tensor, blank_label: int
) -> tf.Tensor:
    blank, label = (tf.transpose(x, [1, 0, 2]) for x in _log_probs(log_probs, labels, blank_label))

    def step(alpha: tf.Tensor, frame: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        blank_here, label_here = frame
        return _log_add(alpha + blank_here, _shifted(alpha + label_here))

    alphas = tf.scan(step, (blank, label), initializer=_start(blank[0]))
    alphas = tf.concat([_start(blank[0])[None], alphas], axis=0)  # (T + 1, B, U + 1)
    batch = tf.range(tf.shape(input_lengths)[0])
    return _negative(tf.gather_nd(alphas, tf.stack([input_lengths, batch, label_lengths], axis=-1)))


_NEVER = -1e30  # log probability; infinity would give NaN as gradient


def _negative(total: tf.Tensor) -> tf.Tensor:
    """:return: of a log probability; infinite, without gradient, if it is that of no way"""
    return tf.where(total > _NEVER / 2, -total, tf.constant(float("inf"), total.dtype))


def _log_probs(acts: tf.Tensor, labels: tf.Tensor, blank_label: int) -> tuple[tf.Tensor, tf.Tensor]:
    """:return: (B, T, U + 1): of the blank; and of the next label, never after the last one"""
    log_probs = tf.nn.log_softmax(acts)
    indices = tf.broadcast_to(labels[:, None], tf.shape(log_probs[:, :, :-1, 0]))
    of_label = tf.gather(log_probs[:, :, :-1], indices, batch_dims=3)
    return log_probs[..., blank_label], tf.pad(of_label, [[0, 0], [0, 0], [0, 1]], constant_values=_NEVER)


def _by_diagonal(x: tf.Tensor) -> tf.Tensor:
    """:return: (T + U, B, U + 1): [n, b, u] is x[b, n - u, u], for x (B, T, U + 1); never where that is no frame"""
    shape = tf.shape(x)
    num_frames, size = shape[1], shape[2]
    frames = tf.range(num_frames + size - 1)[:, None] - tf.range(size)[None]  # (T + U, U + 1)
    inside = tf.logical_and(frames >= 0, frames < num_frames)
    position = tf.clip_by_value(frames, 0, num_frames - 1) * size + tf.range(size)[None]
    picked = tf.gather(tf.reshape(x, [shape[0], num_frames * size]), position, axis=1)  # (B, T + U, U + 1)
    return tf.transpose(tf.where(inside[None], picked, _NEVER), [1, 0, 2])


def _start(like: tf.Tensor) -> tf.Tensor:
    """:return: (B, U + 1): log probabilities before the first frame: there is no label yet"""
    first = tf.zeros_like(like[:, :1])
    return tf.concat([first, tf.fill(tf.shape(like[:, 1:]), tf.cast(_NEVER, like.dtype))], axis=1)


def _shifted(x: tf.Tensor) -> tf.Tensor:
    """:return: what was at u is at u + 1"""
    return tf.pad(x[:, :-1], [[0, 0], [1, 0]], constant_values=_NEVER)


def _log_add(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    larger, smaller = tf.maximum(a, b), tf.minimum(a, b)
    return tf.maximum(larger + tf.math.log1p(tf.exp(smaller - larger)), _NEVER)
