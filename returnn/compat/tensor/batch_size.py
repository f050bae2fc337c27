"""The size of the batch, where tensors of a graph are made by hand."""

from __future__ import annotations

from returnn.tensor._frontend import operations
from returnn.tensor.tensor import Tensor
from returnn.tensor.tensor_batch import SIZE_OF_PLACEHOLDERS

_BY_HAND = "batch_size"  # name of the size of the batch where it is that of a tensor which was made by hand


def take_batch_size_from(tensor: Tensor) -> None:
    """
    Code which makes tensors by hand gives them values and lengths, but nothing for the batch. So in a graph where
    nobody said how large the batch is, it is as large as that axis of the value. The same where a network has
    placeholders, by which it would be known, but the value is computed without them, so they may never be fed; and
    where it is known by placeholders that were made by hand, and nothing has to be fed for the value.
    """
    axis = tensor.batch_dim_axis
    if tensor.raw_tensor is None or axis is None:
        return
    dim = tensor.dims[axis]
    rf = operations()
    backend = rf.get_backend_by_tensor(tensor)
    if backend.executing_eagerly() or dim.size is not None:
        return
    if dim.dyn_size is not None:
        known = dim.dyn_size_ext
        if known is None or not (
            (known.name == SIZE_OF_PLACEHOLDERS and backend.is_computed_from_own_input(tensor))
            or (
                known.name == _BY_HAND
                and not backend.is_computed_from_constants(known)
                and backend.is_computed_from_constants(tensor)
            )
        ):
            return
        dim.dyn_size_ext = None
    with tensor.graph_of_value():
        size = backend.get_shape_tuple_raw(tensor.raw_tensor)[axis]
        dim.dyn_size_ext = rf.convert_to_tensor(size, dims=(), dtype="int32", name=_BY_HAND)
