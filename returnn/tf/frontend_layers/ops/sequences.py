"""Operations on whole sequences: loss of CTC, distance of labels, places in what is sorted."""

from __future__ import annotations

from typing import Any

from returnn.frontend._array.slice import slice
from returnn.frontend._reduce import reduce_sum
from returnn.frontend.array_ import cast, where
from returnn.frontend.math_ import combine_bc, compare_bc
from returnn.tensor import Dim, Tensor
from returnn.tf.frontend_layers.layer import Layer
from returnn.tf.frontend_layers.recording import as_recorded, record, record_expression, template_backend


class SequenceLayers:
    """For their meaning see `returnn.frontend._ops.nn.ctc`, `_ops.order`, `_array.sequences`."""

    @classmethod
    def ctc_loss(
        cls,
        *,
        logits: Tensor[Any],
        logits_normalized: bool = False,
        targets: Tensor[Any],
        input_spatial_dim: Dim,
        targets_spatial_dim: Dim,
        blank_index: int,
        max_approx: bool = False,
        use_native_op: bool | None = None,
        label_loop: bool = True,
    ) -> Tensor[Any]:
        """:return: by layers of class "ctc_loss", which is 0 where there is no alignment, and "switch" """
        given: dict[str, Any] = {"logits_normalized": logits_normalized, "blank_index": blank_index}
        given.update(max_approx=max_approx, label_loop=label_loop)
        dims = {"input_spatial_dim": input_spatial_dim, "targets_spatial_dim": targets_spatial_dim}
        template = template_backend().ctc_loss(
            logits=logits.copy_template(),
            targets=targets.copy_template(),
            use_native_op=use_native_op,
            **dims,
            **given,
        )
        classes = logits.feature_dim
        if targets.sparse_dim is None or classes is None or len(template.dims) != 1:
            out: Tensor[Any] = record_expression("ctc_loss", logits=logits, targets=targets, **dims, **given)
            return out
        options = {
            "class": "ctc_loss",
            "logits": _with_roles(logits, T=input_spatial_dim, F=classes),
            "targets": _with_roles(targets, T=targets_spatial_dim),
            **given,
        }
        loss = record(template, options)
        place = Layer.current_ctx().get_new_child("ctc_is_possible")
        place.is_subnet = True
        with place:
            is_possible = _has_alignment(targets, input_spatial_dim, targets_spatial_dim, label_loop)
        return where(is_possible, loss, float("inf"))

    @classmethod
    def edit_distance(cls, a: Tensor[Any], a_dim: Dim, b: Tensor[Any], b_dim: Dim) -> Tensor[Any]:
        """:return: by a layer of class "edit_distance" """
        template = template_backend().edit_distance(a.copy_template(), a_dim, b.copy_template(), b_dim)
        options = {"class": "edit_distance", "a": as_recorded(a), "b": as_recorded(b)}
        return record(template, {**options, "a_spatial_dim": a_dim, "b_spatial_dim": b_dim})

    @classmethod
    def search_sorted(
        cls,
        sorted_seq: Tensor[Any],
        values: Tensor[Any],
        *,
        axis: Dim,
        side: str = "left",
        out_dtype: str = "int32",
    ) -> Tensor[Any]:
        """:return: by a layer of class "search_sorted", for int32"""
        template = template_backend().search_sorted(
            sorted_seq.copy_template(), values.copy_template(), axis=axis, side=side, out_dtype=out_dtype
        )
        if out_dtype != "int32":
            out: Tensor[Any] = record_expression(
                "search_sorted", sorted_seq, values, axis=axis, side=side, out_dtype=out_dtype
            )
            return out
        options = {"class": "search_sorted", "sorted_sequence": as_recorded(sorted_seq), "values": as_recorded(values)}
        return record(template, {**options, "axis": axis, "side": side})


def _with_roles(source: Tensor[Any], **axes: Dim) -> Tensor[Any]:
    """:return: the same; the layer class takes these dims as "T" and "F", whatever they are in the layers before"""
    return record(
        source.copy_template(),
        {"class": "reinterpret_data", "from": as_recorded(source), "set_axes": axes},
        name="roles",
    )


def _has_alignment(targets: Tensor[Any], frames: Dim, labels: Dim, label_loop: bool) -> Tensor[Any]:
    """:return: [...]: whether there are as many frames as there are labels, and blanks between equal ones"""
    needed = labels.get_size_tensor()
    if label_loop:
        before, shorter = slice(targets, axis=labels, end=-1)
        behind, _ = slice(targets, axis=labels, start=1, out_dim=shorter)
        repeats = reduce_sum(cast(compare_bc(before, "==", behind), "int32"), axis=shorter)
        needed = combine_bc(needed, "+", repeats)
    return compare_bc(needed, "<=", frames.get_size_tensor())
