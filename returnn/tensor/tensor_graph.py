"""The value of a tensor in a graph: placeholders, checks when it is computed, where it can be used."""

from __future__ import annotations

import contextlib
import re
from contextlib import AbstractContextManager
from typing import Any

from returnn.tensor._frontend import backend_of_raw, operations
from returnn.tensor.dim import batch_dim
from returnn.tensor.tensor_operators import TensorOperators


class TensorGraph(TensorOperators):
    """The floor of `Tensor` about graphs."""

    def create_placeholders(self) -> None:
        """
        Makes a TensorFlow placeholder for the value, and for each dynamic dim without lengths one for those, called
        `NAME_dim0_size` and so on: axes are counted without the batch. Decoders outside know these names.
        """
        backend = operations().get_backend_by_name("tf")
        for axis, dim in enumerate(dim for dim in self.dims if not dim.is_batch_dim()):
            if dim.size is not None or dim.dyn_size is not None or dim.is_derived():
                continue
            template = dim.dyn_size_ext
            lengths_dims = (batch_dim,) if template is None else template.dims
            lengths = type(self)(f"{self.name}_dim{axis}_size", lengths_dims, type(self).size_dtype)
            lengths.raw_tensor = backend.create_placeholder_raw(lengths)
            dim.dyn_size_ext = lengths
        self.raw_tensor = backend.create_placeholder_raw(self)

    def get_scope_name(self) -> str:
        """:return: the name, with letters only that a TensorFlow name scope can have"""
        return re.sub(r"[^A-Za-z0-9_.\\/>-]", "_", self.name)

    def get_runtime_sanity_check_op(self) -> Any:
        """:return: operation that checks the value against dims and lengths; None in eager code, which checks now"""
        return backend_of_raw(self.raw_tensor).runtime_sanity_checks(self)

    def get_placeholder_with_runtime_sanity_checks(self) -> Any:
        """:return: raw tensor which is only computed after the value was checked against the dims and lengths"""
        check = self.get_runtime_sanity_check_op()
        if check is None:
            return self.raw_tensor
        return backend_of_raw(self.raw_tensor).identity_with_control_dependencies_raw(self.raw_tensor, [check])

    def is_valid_in_current_graph(self) -> bool:
        """:return: whether the value can be used here; a template can"""
        return self.raw_tensor is None or backend_of_raw(self.raw_tensor).is_valid_in_current_graph(self)

    def graph_of_value(self) -> AbstractContextManager[Any]:
        """:return: context manager; operations are made in the graph of the value"""
        if self.raw_tensor is None:
            return contextlib.nullcontext()
        return backend_of_raw(self.raw_tensor).graph_of_value(self)
