"""Small operations on arrays, and files with numbers."""

from __future__ import annotations

from typing import Any

import numpy

from returnn.util.files.literal import literal_eval

Array = numpy.ndarray[Any, Any]


def softmax(x: Array, axis: int | None = None) -> Array:
    """
    :param x: logits
    :param axis: over which it is normalized; over all by default
    :return: probabilities
    """
    exp = numpy.exp(x - numpy.max(x, axis=axis, keepdims=True))
    probs: Array = exp / numpy.sum(exp, axis=axis, keepdims=True)
    return probs


def class_idx_seq_to_1_of_k(seq: Array, num_classes: int) -> Array:
    """
    :param seq: class indices
    :param num_classes: K
    :return: one more axis, of size K, with 1 at the index and 0 elsewhere; float32
    """
    one_hot: Array = numpy.eye(num_classes, dtype="float32")[numpy.asarray(seq)]
    return one_hot


def slice_pad_zeros(x: Array, begin: int, end: int, axis: int = 0) -> Array:
    """
    :param x: any array
    :param begin: may be negative: before the array
    :param end: may be behind the array
    :param axis: which is sliced
    :return: `end - begin` frames, with zeros where `x` has none
    """
    size = x.shape[axis]
    inside = numpy.take(x, range(min(max(begin, 0), size), max(min(end, size), 0)), axis=axis)
    padding = [(0, 0)] * x.ndim
    left = min(max(-begin, 0), end - begin)
    padding[axis] = (left, end - begin - left - inside.shape[axis])
    return numpy.pad(inside, padding)


def inplace_increment(x: Array, idx: Array, y: Array | float) -> Array:
    """Adds `y` to `x[idx]`, also where an index occurs several times, and returns `x`."""
    numpy.add.at(x, idx, y)
    return x


def random_orthogonal(shape: tuple[int, ...], gain: float = 1.0, seed: int | None = None) -> Array:
    """
    Saxe et al., "Exact solutions to the nonlinear dynamics of learning in deep linear neural networks", 2013.

    :param shape: all axes but the last are seen as one
    :param gain: scale
    :param seed: of the random numbers
    :return: float32; rows or columns, whichever there are less of, are orthogonal
    """
    num_rows = int(numpy.prod(shape[:-1]))
    gauss = numpy.random.RandomState(seed).normal(size=(max(num_rows, shape[-1]), min(num_rows, shape[-1])))
    q, r = numpy.linalg.qr(gauss)
    q = q * numpy.sign(numpy.diag(r))
    matrix = q if q.shape == (num_rows, shape[-1]) else q.T
    res: Array = (gain * matrix.reshape(shape)).astype("float32")
    return res


def load_txt_vector(filename: str) -> list[float]:
    """
    :param filename: text, the numbers separated by spaces or lines, or a Python list of them; `#` starts a comment
    :return: the numbers
    """
    with open(filename, encoding="utf8") as file:
        text = " ".join(line.split("#")[0] for line in file)
    if text.strip().startswith("["):
        return [float(value) for value in literal_eval(text)]
    return [float(value) for value in text.split() if not value.startswith("<")]
