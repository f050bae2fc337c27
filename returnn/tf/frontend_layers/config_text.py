"""The text of a config with a net dict that was recorded. It needs nothing of this package when it is loaded."""

from __future__ import annotations

import pprint
from typing import TYPE_CHECKING, Any

import numpy

from returnn.tf.frontend_layers.dim_tags_proxy import ReturnnDimTagsProxy
from returnn.tf.frontend_layers.net import Net
from returnn.tf.frontend_layers.place import NetDictRaw, Place
from returnn.util.errors import UserError

if TYPE_CHECKING:
    from returnn.frontend.module import Module

_HEADER = """\
import numpy

from returnn.tensor import Dim, batch_dim, single_step_dim
from returnn.tensor.dim_rules import at_least, at_most, padded_dim, twin
from returnn.tensor.marked_dim import ImplicitDynSizeDim, ImplicitSparseDim, OptionalDim

inf, nan = float("inf"), float("nan")
"""
_NAMES_IN_HEADER = {
    "numpy", "Dim", "batch_dim", "single_step_dim", "at_least", "at_most", "padded_dim", "twin", "inf", "nan",
    "ImplicitDynSizeDim", "ImplicitSparseDim", "OptionalDim", "extern_data", "network", "behavior_version",
}  # fmt: skip


class ReturnnConfigSerializer:
    """Makes the text of a config from what was recorded in a root."""

    def __init__(self, name_ctx: Place, *, root_module: Module | None = None) -> None:
        """
        :param name_ctx: root
        :param root_module: the model, to which all parameters have to belong; None: it is not checked
        :raises UserError: if there are other parameters
        """
        self.name_ctx = name_ctx.root
        if root_module is not None:
            self._check_parameters(root_module)

    def _check_parameters(self, root_module: Module) -> None:
        known = {name for name, _ in root_module.named_parameters()}
        for name, options in self.get_net_dict_raw_dict().items():
            if options["class"] == "variable" and name not in known:
                raise UserError(
                    f"parameter {name!r}: does not belong to the model {root_module}.\n"
                    "  Its modules have to be attributes of the model, so that each parameter has a name."
                )

    def get_net_dict_raw_dict(self) -> NetDictRaw:
        """:return: the net dict"""
        return Net(name_ctx=self.name_ctx).make_net_dict_raw()

    def get_extern_data_raw_dict(self) -> dict[str, Any]:
        """:return: option `extern_data`"""
        result = {}
        for key, data in self.name_ctx.extern_data.items():
            options: dict[str, Any] = {"dim_tags": list(data.dims), "dtype": data.dtype}
            if data.sparse_dim is not None:
                options["sparse_dim"] = data.sparse_dim
            for axis in ("time_dim_axis", "feature_dim_axis"):
                options[axis] = getattr(data, axis)
            result[key] = options
        return result

    def get_config_raw_dict(self) -> dict[str, Any]:
        """:return: options of a config: data and network"""
        return {"extern_data": self.get_extern_data_raw_dict(), "network": self.get_net_dict_raw_dict()}

    def get_complete_py_code_str(self) -> str:
        """:return: text of a config, in Python"""
        dims = ReturnnDimTagsProxy(reserved_names=set(_NAMES_IN_HEADER))
        config = dims.collect_dim_tags_and_transform_config(self.get_config_raw_dict())
        parts = [_HEADER, dims.py_code_str()]
        for name, value in config.items():
            text = pprint.pformat(_as_code(value, name), width=120, sort_dicts=False)
            parts.append(f"{name} = {text}\n")
        return "\n".join(parts)


class _Code:
    """Something whose `repr` is code."""

    def __init__(self, code: str) -> None:
        self.code = code

    def __repr__(self) -> str:
        return self.code


def _as_code(value: Any, where: str) -> Any:
    """
    :return: the same, where the `repr` of everything is code
    :raises UserError: if something cannot be written as code
    """
    if isinstance(value, dict):
        return {key: _as_code(entry, f"{where}[{key!r}]") for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_as_code(entry, f"{where}[{i}]") for i, entry in enumerate(value))
    if isinstance(value, numpy.ndarray):
        values = value.astype("float64").tolist() if value.dtype.kind == "f" else value.tolist()
        return _Code(f"numpy.array({values!r}, dtype={value.dtype.name!r})")
    if isinstance(value, numpy.generic):
        return value.item()
    is_plain = value is None or isinstance(value, (bool, int, float, complex, str, bytes))
    if is_plain or type(value).__module__ == ReturnnDimTagsProxy.__module__:
        return value
    raise UserError(f"{where}: {value!r} cannot be written as text of a config.")
