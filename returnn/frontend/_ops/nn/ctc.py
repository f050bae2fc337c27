"""Scores and alignments of label sequences: CTC (Graves et al. 2006), and the edit distance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy

from returnn.frontend._ops.creation import CreationOps
from returnn.frontend._ops.layout import rows_of, with_at_least
from returnn.frontend._ops.nn.ctc_lattice import Lattice, scalar_like
from returnn.frontend._ops.operands import fail, require_dims, require_float
from returnn.frontend._ops.softmax import SoftmaxOps
from returnn.tensor import Dim, Tensor
from returnn.util.errors import DtypeError, UserError


class CtcOps(SoftmaxOps, CreationOps):
    """Scores and alignments of label sequences."""

    @classmethod
    def ctc_loss(
        cls,
        *,
        logits: Tensor,
        logits_normalized: bool = False,
        targets: Tensor,
        input_spatial_dim: Dim,
        targets_spatial_dim: Dim,
        blank_index: int,
        max_approx: bool = False,
        use_native_op: bool | None = None,
        label_loop: bool = True,
    ) -> Tensor:
        """See `returnn.frontend.ctc_loss`."""
        targets = cls.as_tensor(targets)
        dims = (input_spatial_dim, targets_spatial_dim)
        _check("ctc_loss", logits, targets, *dims, blank_index)
        out = Tensor("ctc_loss", _batch_dims(logits, targets, *dims), logits.dtype)
        if not cls.computes:
            return out
        raw = None
        if use_native_op is not False:
            rows, options = _for_kernel(cls, logits, targets, *dims, blank_index, label_loop, logits_normalized)
            raw = cls.ctc_loss_by_kernel_raw(*rows, **options, max_approx=max_approx)
        if raw is None and use_native_op:
            raise UserError(f"ctc_loss: there is no native operation for {logits}. Leave use_native_op at None.")
        if raw is None and not max_approx and label_loop and not logits_normalized:
            raw = cls.ctc_loss_raw(*cls._rows_of_ctc(logits, targets, *dims), blank_index=blank_index)
        if raw is None:
            log_probs = logits if logits_normalized else _log_probs(cls, logits, input_spatial_dim)
            rows = cls._rows_of_ctc(log_probs, targets, *dims)
            lattice, scores = cls._lattice_of_rows(*rows, blank_index, label_loop, logits.device)
            raw = lattice.loss(scores, max_approx=max_approx)
        out._raw_tensor = _from_rows(cls, raw, out.dims, [])
        return out

    @classmethod
    def ctc_loss_packed_raw(
        cls,
        *,
        logits: Any,
        seq_starts: Any,
        logits_seq_lens: Any,
        max_seq_len: int,
        targets: Any,
        targets_seq_lens: Any,
        label_loop: bool,
        logits_normalize: bool,
        blank_index: int,
        edges_bound: int | None,
    ) -> Any:
        """
        The loss of sequences that are behind each other, without padding. Only the scores of their labels are padded.

        :param logits: (frames of all sequences, classes)
        :param seq_starts: (B,), int32, first frame of each sequence
        :param logits_seq_lens: (B,), int32
        :param max_seq_len: longest one
        :param targets: (B, S), int32
        :param targets_seq_lens: (B,), int32
        :param label_loop: whether a label can stay for several frames
        :param logits_normalize: whether the logits are normalized here; else they are log probabilities
        :param blank_index: the class
        :param edges_bound: highest number of states of a sequence, 2 * labels + 1; None: there is no limit
        :return: (B,), in nats
        :raises UserError: if there are more states
        """
        num_states = 2 * cls.get_shape_tuple_raw(targets)[1] + 1
        if edges_bound is not None and num_states > edges_bound:
            raise UserError(f"ctc_loss: there are {num_states} states, but edges_bound is {edges_bound}.")
        if cls.get_shape_tuple_raw(logits)[0] == 0:
            logits = cls.pad_raw(logits, [(0, 1), (0, 0)], 0.0)
        log_probs = cls.log_softmax_raw(logits, 1) if logits_normalize else logits
        num_frames, num_classes = cls.get_shape_tuple_raw(logits)
        frame = seq_starts[:, None] + cls.range_raw(max(max_seq_len, 1), "int32", None).reshape(1, -1)
        frame = cls.combine_raw(frame, "minimum", scalar_like(cls, frame, num_frames - 1))
        flat = cls.reshape_raw(log_probs, [num_frames * num_classes])

        def scores_of(labels: Any) -> Any:
            return cls.gather_raw(flat, frame[:, :, None] * num_classes + labels[:, None, :], 0, 0)

        lattice, scores = cls._ctc_lattice(
            scores_of, max(max_seq_len, 1), targets, logits_seq_lens, targets_seq_lens, blank_index, label_loop, None
        )
        return lattice.loss(scores, max_approx=False)

    @classmethod
    def ctc_best_path(
        cls,
        *,
        logits: Tensor,
        logits_normalized: bool = False,
        targets: Tensor,
        input_spatial_dim: Dim,
        targets_spatial_dim: Dim,
        blank_index: int,
        label_loop: bool = True,
    ) -> Tensor:
        """See `returnn.frontend.ctc_best_path`."""
        targets = cls.as_tensor(targets)
        dims = (input_spatial_dim, targets_spatial_dim)
        _check("ctc_best_path", logits, targets, *dims, blank_index)
        batch = _batch_dims(logits, targets, *dims)
        out = Tensor("ctc_best_path", [*batch, input_spatial_dim], "int32", sparse_dim=logits.feature_dim)
        if not cls.computes:
            return out
        rows, options = _for_kernel(cls, logits, targets, *dims, blank_index, label_loop, logits_normalized)
        path = cls.ctc_best_path_by_kernel_raw(*rows, **options)
        if path is None:
            log_probs = logits if logits_normalized else _log_probs(cls, logits, input_spatial_dim)
            path = _best_path_of_lattice(cls, log_probs, targets, *dims, blank_index, label_loop)
        elif options["time_major"]:
            path = cls.transpose_raw(path, [1, 0])
        out._raw_tensor = _from_rows(cls, cls.cast_raw(path, out.dtype), batch, [input_spatial_dim])
        return out

    @classmethod
    def have_edit_distance(cls) -> bool:
        """:return: whether there is `edit_distance`"""
        return True

    @classmethod
    def edit_distance(cls, a: Tensor, a_spatial_dim: Dim, b: Tensor, b_spatial_dim: Dim) -> Tensor:
        """:return: int32, see `returnn.frontend.edit_distance`"""
        a, b = cls.as_tensor(a), cls.as_tensor(b)
        for name, x, dim in (("a", a, a_spatial_dim), ("b", b, b_spatial_dim)):
            require_dims(f"edit_distance: {name}_spatial_dim", x, [dim])
            if not x.dtype.startswith(("int", "uint")):
                raise DtypeError(f"edit_distance: {x} should be labels, as integers.")
        if a.dtype != b.dtype:
            raise DtypeError(f"edit_distance: the dtypes of {a} and {b} differ.\n  Use rf.cast on one of them.")
        out = Tensor("edit_distance", _all_dims([(a, [a_spatial_dim]), (b, [b_spatial_dim])]), "int32")
        if cls.computes:
            rows = [rows_of(x, out.dims, [dim]) for x, dim in ((a, a_spatial_dim), (b, b_spatial_dim))]
            lengths = [cls._lengths(dim, out.dims, a) for dim in (a_spatial_dim, b_spatial_dim)]
            out._raw_tensor = _from_rows(cls, cls.edit_distance_raw(*rows, *lengths), out.dims, [])
        return out

    @classmethod
    def _lattice_of_rows(cls, log_probs: Any, labels: Any, *options: Any) -> tuple[Lattice, Any]:
        """
        :param log_probs: (B, T, classes)
        :param labels: (B, S)
        :param options: as of `_ctc_lattice`
        :return: see `_ctc_lattice`
        """

        def scores_of(labels: Any) -> Any:
            return cls.gather_raw(log_probs, labels, 2, 1)

        return cls._ctc_lattice(scores_of, cls.get_shape_tuple_raw(log_probs)[1], labels, *options)

    @classmethod
    def _ctc_lattice(
        cls,
        scores_of: Callable[[Any], Any],
        longest: Any,
        labels: Any,
        num_frames: Any,
        num_labels: Any,
        blank_index: int,
        label_loop: bool,
        device: str | None,
    ) -> tuple[Lattice, Any]:
        """
        :param scores_of: (B, states), classes -> (B, T, states), their log probabilities
        :param longest: T
        :param labels: (B, S)
        :param num_frames: (B,)
        :param num_labels: (B,)
        :param blank_index: the class
        :param label_loop: whether a label can stay for several frames
        :param device: for what is made here
        :return: lattice; (T, B, states), log probability of each state in each frame
        """
        num_states = cls.get_shape_tuple_raw(labels)[1] * 2 + 1
        state = cls.range_raw(num_states, "int32", device)
        is_label = cls.compare_raw(state % 2, "equal", 1)
        padded = cls.pad_raw(labels, [(0, 0), (0, 1)], blank_index)
        labels = cls.where_raw(
            is_label, cls.gather_raw(padded, state // 2, 1, 0), scalar_like(cls, labels, blank_index)
        )
        before = cls.pad_raw(labels, [(0, 0), (2, 0)], blank_index)[:, :-2]
        can_skip = cls.combine_raw(is_label, "logical_and", cls.compare_raw(state, "greater", 1))
        if label_loop:
            can_skip = cls.combine_raw(can_skip, "logical_and", cls.compare_raw(labels, "not_equal", before))
        last = (num_labels * 2)[:, None]
        is_end = cls.combine_raw(
            cls.compare_raw(state, "equal", last), "logical_or", cls.compare_raw(state, "equal", last - 1)
        )
        frame = cls.range_raw(longest, "int32", device)
        is_valid = cls.compare_raw(frame[:, None], "less", num_frames)[:, :, None]
        can_stay = None if label_loop else cls.compare_raw(state % 2, "equal", 0)
        scores = cls.transpose_raw(scores_of(labels), [1, 0, 2])
        certain, impossible = (scalar_like(cls, scores, value) for value in (0.0, -numpy.inf))
        start = cls.where_raw(cls.compare_raw(state, "equal", 0), certain, impossible)
        start = cls.where_raw(is_end, start, start)  # the same for all sequences
        return Lattice(cls, labels, start, is_end, is_valid, can_stay, can_skip), scores

    @classmethod
    def _rows_of_ctc(
        cls, logits: Tensor, targets: Tensor, input_spatial_dim: Dim, targets_spatial_dim: Dim
    ) -> tuple[Any, Any, Any, Any]:
        """:return: (B, T, classes), T at least 1; (B, S); (B,), number of frames; (B,), number of labels"""
        batch = _batch_dims(logits, targets, input_spatial_dim, targets_spatial_dim)
        assert logits.feature_dim is not None
        masked = logits.copy_masked(0, dims=[input_spatial_dim])
        frames = rows_of(masked, batch, [input_spatial_dim, logits.feature_dim])
        return (
            with_at_least(logits, frames, 1, 1, 0.0, size=input_spatial_dim.get_dim_value()),
            rows_of(
                cls.cast(targets.copy_masked(0, dims=[targets_spatial_dim]), "int32"), batch, [targets_spatial_dim]
            ),
            cls._lengths(input_spatial_dim, batch, logits),
            cls._lengths(targets_spatial_dim, batch, logits),
        )

    @classmethod
    def _lengths(cls, dim: Dim, batch: Sequence[Dim], like: Tensor) -> Any:
        """:return: (B,), int32"""
        lengths = cls.as_tensor(cls.copy_to_device(cls.as_tensor(dim.get_size_tensor()), cls.get_device(like)))
        return rows_of(cls.cast(lengths, "int32"), batch, [])


def _for_kernel(
    backend: type[CtcOps],
    logits: Tensor,
    targets: Tensor,
    input_spatial_dim: Dim,
    targets_spatial_dim: Dim,
    blank_index: int,
    label_loop: bool,
    normalized: bool,
) -> tuple[tuple[Any, Any, Any, Any], dict[str, Any]]:
    """:return: (B, T, classes) or (T, B, classes), as the logits are; (B, S); (B,); (B,); options. No masks"""
    batch = _batch_dims(logits, targets, input_spatial_dim, targets_spatial_dim)
    classes = logits.feature_dim
    assert classes is not None
    time_major = bool(batch) and logits.dims[0] == input_spatial_dim
    before, behind = ([input_spatial_dim], [classes]) if time_major else ([], [input_spatial_dim, classes])
    rows = (
        rows_of(logits, batch, behind, frames=before),
        rows_of(backend.cast(targets, "int32"), batch, [targets_spatial_dim]),
        backend._lengths(input_spatial_dim, batch, logits),
        backend._lengths(targets_spatial_dim, batch, logits),
    )
    options = {"label_loop": label_loop, "normalized": normalized, "time_major": time_major}
    return rows, {"blank": blank_index, **options}


def _best_path_of_lattice(
    backend: type[CtcOps],
    log_probs: Tensor,
    targets: Tensor,
    input_spatial_dim: Dim,
    targets_spatial_dim: Dim,
    blank_index: int,
    label_loop: bool,
) -> Any:
    """:return: (B, T)"""
    rows = backend._rows_of_ctc(log_probs, targets, input_spatial_dim, targets_spatial_dim)
    lattice, scores = backend._lattice_of_rows(*rows, blank_index, label_loop, log_probs.device)
    state = lattice.best_path(scores, lattice.forward(scores, "max"))
    path = backend.gather_raw(lattice.labels, backend.transpose_raw(state, [1, 0]), 1, 1)
    return path[:, : input_spatial_dim.get_dim_value()]  # there was at least one frame


def _log_probs(backend: type[CtcOps], logits: Tensor, input_spatial_dim: Dim) -> Tensor:
    """:return: log probabilities, of any values in padded frames but NaN"""
    assert logits.feature_dim is not None
    return backend.log_softmax(logits.copy_masked(0, dims=[input_spatial_dim]), axis=logits.feature_dim)


def _from_rows(backend: type[CtcOps], raw: Any, batch: Sequence[Dim], rest: Sequence[Dim]) -> Any:
    """:return: the batch dims as axes of their own"""
    if len(batch) == 1:
        return raw
    return backend.reshape_raw(raw, [dim.get_dim_value() for dim in (*batch, *rest)])


def _batch_dims(logits: Tensor, targets: Tensor, input_spatial_dim: Dim, targets_spatial_dim: Dim) -> list[Dim]:
    """:return: all dims but the frames, the classes, and the labels"""
    assert logits.feature_dim is not None
    return _all_dims([(logits, [input_spatial_dim, logits.feature_dim]), (targets, [targets_spatial_dim])])


def _all_dims(sources: Sequence[tuple[Tensor, Sequence[Dim]]]) -> list[Dim]:
    """
    :param sources: tensors, each with the dims to leave out
    :return: all their other dims, and those which the lengths differ over
    """
    dims: list[Dim] = []
    for x, excluded in sources:
        dims += [dim for dim in x.remaining_dims(excluded) if dim not in dims]
    for _, excluded in sources:
        for dim in excluded:
            lengths = dim.dyn_size_ext
            dims += [d for d in (() if lengths is None else lengths.dims) if d not in dims]
    return dims


def _check(
    name: str, logits: Tensor, targets: Tensor, input_spatial_dim: Dim, targets_spatial_dim: Dim, blank_index: int
) -> None:
    require_dims(f"{name}: input_spatial_dim", logits, [input_spatial_dim])
    require_dims(f"{name}: targets_spatial_dim", targets, [targets_spatial_dim])
    require_float(name, logits)
    classes, labels = logits.feature_dim, targets.sparse_dim
    if classes is None:
        raise fail(f"{name}: {logits} has no feature dim, which would be the classes.")
    if not targets.dtype.startswith(("int", "uint")):
        raise DtypeError(f"{name}: the targets {targets} should be labels, as integers.")
    if classes.size is not None and not 0 <= blank_index < classes.size:
        raise fail(f"{name}: blank_index {blank_index} is not one of the classes {classes} of {logits}.")
    if classes.size is not None and labels is not None and labels.size is not None and labels.size > classes.size:
        raise fail(f"{name}: the targets {targets} have more labels than there are classes in {logits}.")
