"""Changes of parameters, as layers."""

from __future__ import annotations

from typing import Any

from returnn.frontend.parameter import Parameter
from returnn.tensor import Tensor
from returnn.tf.frontend_layers.layer import Layer
from returnn.tf.frontend_layers.make_layer import make_layer


def parameter_assign(param: Parameter, value: Tensor[Any], *, op: str = "assign") -> None:
    """
    :param param: is changed whenever the network runs; what uses it later gets the new value
    :param value: new value
    :param op: "assign" or "add"
    """
    param.assign(value) if op == "assign" else param.assign_add(value)


def assign_layer(param: Parameter, value: Tensor[Any], *, op: str) -> None:
    """
    Makes a layer of class "variable_assign", and one of class "variable_read", which those see that use the parameter
    from now on.

    :param param: parameter
    :param value: with a layer
    :param op: "assign" or "add"
    """
    raw: Layer = param.raw_tensor
    around = Layer.top()
    name = param.get_full_name()
    options = {"class": "variable_assign", "var": raw, "value": value, "op": op, "is_output_layer": True}
    options["control_dependencies"] = [param._raw_tensor]  # what was read before is the value before
    done: Tensor[Any] = Tensor("assign", dims=(), dtype="int32")
    make_layer(options, name=around.get_new_child(f"{name}.assign"), out=done)
    around.network.marked_outputs.append(done)
    read: Tensor[Any] = param.copy_template()
    make_layer(
        {"class": "variable_read", "var": raw, "control_dependencies": [done]},
        name=around.get_new_child(f"{name}.read"),
        out=read,
    )
    param.set_reader(lambda _: read.raw_tensor)
