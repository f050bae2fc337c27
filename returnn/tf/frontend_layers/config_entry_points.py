"""
The net dict of a config with `get_model` and `train_step` (or `forward_step`): what an option `get_network` returns.

    def get_network(epoch, step=None):
        return get_net_dict(epoch=epoch, step=step)
"""

from __future__ import annotations

from typing import Any

import returnn.frontend as rf
from returnn.config import Config, get_global_config
from returnn.engine.frontend.extern_data import descriptions_with_dims_of, extern_data_of_config
from returnn.engine.frontend.functions import ModelFunctions
from returnn.tensor import Tensor, TensorDict
from returnn.tf.frontend_layers.layer import Layer
from returnn.tf.frontend_layers.make_layer import make_layer, register_extern_data
from returnn.tf.frontend_layers.net import NetDictRaw
from returnn.tf.frontend_layers.recording import as_recorded
from returnn.tf.frontend_layers.scopes import BACKEND_NAME

_STEPS_OF_TASKS = {"forward": "forward_step", "search": "forward_step"}  # all others: train_step


def get_net_dict(*, epoch: int, step: int | None) -> NetDictRaw:
    """
    :param epoch: from 1
    :param step: number of training steps so far
    :return: net dict of the model, by the functions of the global config
    :raises ConfigError: if one of them is missing
    """
    config = get_global_config()
    assert config is not None  # without one, that was an error
    with rf.backend_ctx(BACKEND_NAME), Layer.new_root() as root:
        templates = extern_data_of_config(config)
        record_config(config, templates, epoch=epoch, step=step or 0)
        net_dict = root.make_net().make_net_dict_raw()
    named = descriptions_with_dims_of(config, templates)  # layers name the dims that the data had in this reading
    return net_dict if named is None else {"#config": {"extern_data": named}, **net_dict}


def record_config(config: Config, templates: TensorDict, *, epoch: int, step: int) -> Any:
    """
    Records model and step in the current root.

    :param config: has the functions
    :param templates: of all data
    :param epoch: from 1
    :param step: number of training steps so far
    :return: the model
    """
    functions = ModelFunctions(config)
    dtype = config.options.default_float_dtype or rf.get_default_float_dtype()
    rf.set_random_seed(config.options.random_seed)
    with rf.set_default_float_dtype_ctx(dtype):
        extern_data = TensorDict()
        for key, template in templates.data.items():
            extern_data.data[key] = register_extern_data(template)
        model = functions.make_model(epoch=epoch, step=step)
        if _STEPS_OF_TASKS.get(config.options.task) == "forward_step":
            ctx = functions.forward_step(model, extern_data, step=step, epoch=epoch)
            _mark_outputs(ctx)
        else:
            flag: Tensor[Any] = Tensor("train_flag", dims=(), dtype="bool")
            make_layer({"class": "train_flag"}, name="train_flag", out=flag)
            ctx = functions.train_step(model, extern_data, train_flag=flag, step=step, epoch=epoch)
            _mark_losses(ctx)
    return model


def _mark_outputs(ctx: rf.RunCtx) -> None:
    root = Layer.top().root
    for name, tensor in ctx.outputs.data.items():
        if name == "output":
            root.make_default_output(as_recorded(tensor))
            continue
        options = {"class": "copy", "from": as_recorded(tensor), "is_output_layer": True}
        root.marked_outputs.append(make_layer(options, name=root.get_new_child(name), predefined_out_data=tensor))


def _mark_losses(ctx: rf.RunCtx) -> None:
    root = Layer.top().root
    for name, loss in ctx.losses.items():
        source = as_recorded(loss.loss)
        options: dict[str, Any] = {"class": "copy", "from": source, "loss": "as_is"}
        if loss.scale != 1:
            options["loss_scale"] = loss.scale
        opts = {"as_error": loss.as_error, "use_normalized_loss": loss.use_normalized_loss}
        given: dict[str, Any] = {key: value for key, value in opts.items() if value}
        if not loss.use_flatten_frames:
            given["use_flatten_frames"] = False
        if loss.custom_inv_norm_factor is not None:
            given["custom_inv_norm_factor"] = as_recorded(loss.custom_inv_norm_factor)
        if given:
            options["loss_opts"] = given
        root.marked_losses.append(make_layer(options, name=root.get_new_child(name), predefined_out_data=source))
    if "output" not in root.children:
        root.make_default_output(as_recorded(next(iter(ctx.losses.values())).loss))
