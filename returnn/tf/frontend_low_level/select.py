"""Raw operations which pick values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from returnn.tf.frontend_low_level.kernels.native import get_operations, has_operations
from returnn.tf.frontend_low_level.products.search_products import is_without_gradients

_SEGMENT: dict[str, Callable[..., Any]] = {
    "sum": tf.math.unsorted_segment_sum,
    "max": tf.math.unsorted_segment_max,
    "min": tf.math.unsorted_segment_min,
}


class SelectTFOps:
    """For the meaning of the operations see `returnn.frontend._backends.required`."""

    @staticmethod
    def gather_raw(raw_tensor: tf.Tensor, indices: tf.Tensor, axis: int, batch_axes: int) -> tf.Tensor:
        """:return: gathered"""
        return tf.gather(raw_tensor, indices, axis=axis, batch_dims=batch_axes)

    @staticmethod
    def segment_raw(values: tf.Tensor, indices: tf.Tensor, number: Any, mode: str) -> tf.Tensor:
        """:return: reduction over segments"""
        return _SEGMENT[mode](values, indices, number)

    @staticmethod
    def masked_select_raw(raw_tensor: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """:return: selected"""
        return tf.boolean_mask(raw_tensor, mask)

    @staticmethod
    def masked_scatter_raw(raw_tensor: tf.Tensor, mask: tf.Tensor, backup: tf.Tensor | None) -> tf.Tensor:
        """:return: scattered"""
        indices = tf.where(mask)
        raw_tensor = raw_tensor[: tf.shape(indices)[0]]
        if backup is not None:
            return tf.tensor_scatter_nd_update(backup, indices, raw_tensor)
        shape = tf.concat([tf.shape(mask), tf.shape(raw_tensor)[1:]], axis=0)
        return tf.scatter_nd(indices, raw_tensor, tf.cast(shape, indices.dtype))

    @staticmethod
    def search_sorted_raw(sorted_rows: tf.Tensor, values: tf.Tensor, *, side: str, dtype: str) -> tf.Tensor:
        """:return: positions"""
        return tf.searchsorted(sorted_rows, values, side=side, out_type=tf.as_dtype(dtype))

    @staticmethod
    def sort_raw(raw_tensor: tf.Tensor, axis: int, *, descending: bool, stable: bool) -> tuple[tf.Tensor, tf.Tensor]:
        """:return: sorted values; their indices"""
        direction = "DESCENDING" if descending else "ASCENDING"
        last = raw_tensor.shape.ndims - 1
        to_last = [*(i for i in range(last + 1) if i != axis), axis]
        if axis != last:
            raw_tensor = tf.transpose(raw_tensor, to_last)
        indices = tf.argsort(raw_tensor, direction=direction, stable=stable)
        values = tf.gather(raw_tensor, indices, batch_dims=last)
        if axis == last:
            return values, indices
        back = [to_last.index(i) for i in range(last + 1)]
        return tf.transpose(values, back), tf.transpose(indices, back)

    @staticmethod
    def top_k_raw(raw_tensor: tf.Tensor, k: Any, *, sorted: bool) -> tuple[tf.Tensor, tf.Tensor]:
        """:return: the highest values; their indices"""
        if is_without_gradients() and raw_tensor.shape[-1] and has_operations(raw_tensor.dtype):
            return _best_of_rows(raw_tensor, k)
        values, indices = tf.math.top_k(raw_tensor, k=k, sorted=sorted)
        return values, indices


def _best_of_rows(x: tf.Tensor, number: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """:return: as `top_k_raw`, sorted, by one look at each value"""
    operations = get_operations()
    assert operations is not None
    rows = x if x.shape.rank == 2 else tf.reshape(x, [-1, x.shape[-1]])
    inputs = {"x": rows, "wanted": tf.zeros([number], tf.int32)}
    results = operations.call("best_of_row", inputs)
    if rows is x:
        return results["values"], results["places"]
    static = x.shape[:-1].concatenate(tf.get_static_value(number))
    sizes: Any = [-1 if size is None else size for size in static]
    if sizes.count(-1) > 1:
        sizes = tf.concat([tf.shape(x)[:-1], tf.shape(inputs["wanted"])], axis=0)
    values, places = (tf.ensure_shape(tf.reshape(results[key], sizes), static) for key in ("values", "places"))
    return values, places
