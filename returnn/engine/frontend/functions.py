"""`ModelFunctions`: the functions of a config that make a model and compute with it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import returnn.frontend as rf
from returnn.config import Config
from returnn.engine.frontend.extern_data import explains_missing_data, extern_data_of_config
from returnn.engine.frontend.wrong_arguments import wrong_argument_error
from returnn.tensor import Dim, Tensor, TensorDict, batch_dim
from returnn.util.errors import ConfigError, UserError
from returnn.util.system.warn_once import warn_once

_FORMS = {
    "get_model": "def get_model(*, epoch, step, **kwargs)",
    "train_step": "def train_step(*, model, extern_data, **kwargs)",
    "forward_step": "def forward_step(*, model, extern_data, **kwargs)",
}


class ModelFunctions:
    """
    `get_model` makes the model, `train_step` marks losses, `forward_step` marks outputs; see `rf.get_run_ctx()`.

    Which backend computes is up to the caller: these only call what the config has, in the right context.
    """

    def __init__(
        self,
        config: Config,
        *,
        compiled: Callable[[Callable[..., Any]], Callable[..., Any]] = lambda function: function,
    ) -> None:
        """
        :param config: has the functions
        :param compiled: makes a function which does the same as that of a step
        """
        self.config = config
        self._compiled = compiled
        self._functions: dict[str, Callable[..., Any]] = {}  # of steps, which are called again and again

    def make_model(self, *, epoch: int, step: int) -> Any:
        """
        :param epoch: from 1
        :param step: number of training steps so far
        :return: the model: a module of the frontend, or of the backend
        :raises ConfigError: if there is no such function, or it returns nothing
        """
        rf.reset_run_ctx()
        model = self._call("get_model", epoch=epoch, step=step)
        if model is None:
            raise ConfigError("option 'get_model': the function returned None.\n  It has to return the model.")
        if isinstance(model, type):
            raise ConfigError(
                f"option 'get_model': the function returned the class {model.__name__}.\n"
                f"  It has to return a model of it: {model.__name__}()."
            )
        if _is_module(model):
            for text in left_out_parts(model):
                warn_once(text)
        return model

    def train_step(
        self, model: Any, extern_data: TensorDict, *, train_flag: bool | Tensor, step: Any, epoch: Any
    ) -> rf.RunCtx:
        """
        :param model: the model
        :param extern_data: a batch
        :param train_flag: whether this is training, rather than evaluation
        :param step: number of the training step
        :param epoch: from 1
        :return: has the losses that were marked
        :raises ConfigError: if no loss was marked
        """
        rf.reset_step_random_state()
        rf.init_train_step_run_ctx(train_flag=train_flag, step=step, epoch=epoch)
        self._call("train_step", model=model, extern_data=extern_data)
        ctx = rf.get_run_ctx()
        if not ctx.losses:
            raise ConfigError("option 'train_step': no loss was marked.\n  Call rf.get_run_ctx().mark_as_loss in it.")
        return ctx

    def forward_step(self, model: Any, extern_data: TensorDict, *, step: Any, epoch: Any) -> rf.RunCtx:
        """
        :param model: the model
        :param extern_data: a batch
        :param step: number of the step
        :param epoch: of the model
        :return: has the outputs that were marked, all of `model_outputs` if the config has it
        :raises ConfigError: if no output was marked
        """
        rf.reset_step_random_state()
        rf.init_forward_step_run_ctx(expected_outputs=self.expected_outputs(extern_data), step=step, epoch=epoch)
        with explains_missing_data(lambda: extern_data_of_config(self.config)):
            self._call("forward_step", model=model, extern_data=extern_data)
        ctx = rf.get_run_ctx()
        ctx.check_outputs_complete()
        if not ctx.outputs.data:
            raise ConfigError(
                "option 'forward_step': no output was marked.\n  Call rf.get_run_ctx().mark_as_output in it."
            )
        return ctx

    def expected_outputs(self, extern_data: TensorDict) -> TensorDict | None:
        """
        :param extern_data: the batch
        :return: templates of `model_outputs`, None if the config does not say which outputs there are. Dims that only
            outputs have get lengths without values, which the step can fill, rather than those of the step before
        """
        descriptions = self.config.options.model_outputs
        if descriptions is None:
            return None
        if not isinstance(descriptions, (Mapping, TensorDict)):
            raise ConfigError(
                f"option 'model_outputs': expected a dict with a template for each output, got {descriptions!r}."
            )
        outputs = TensorDict(descriptions)
        known = extern_data.all_dims()
        for dim in outputs.all_dims():
            if dim not in known and _has_lengths_of_step(dim):
                dim.dyn_size_ext = None
                dim.dyn_size_ext = Tensor(f"{dim.name}:lengths", dims=[batch_dim], dtype="int32")
        return outputs

    def required(self, option: str) -> Callable[..., Any]:
        """
        :param option: such as "forward_step"
        :return: the function
        :raises ConfigError: if the config has none
        """
        function: Callable[..., Any] | None = getattr(self.config.options, option)
        if function is None:
            raise ConfigError(
                f"option {option!r} is required for task {self.config.options.task!r}:\n  {_FORMS[option]}"
            )
        return function

    def _call(self, option: str, **arguments: Any) -> Any:
        function = self.required(option)
        check_callable_with(option, function, arguments, form=_FORMS[option])
        if option != "get_model":
            if option not in self._functions:
                self._functions[option] = self._compiled(function)
            function = self._functions[option]
        try:
            return function(**arguments)
        except (AttributeError, TypeError, UserError) as exc:
            error = wrong_argument_error(exc)
            if error is None:
                raise
            raise error from exc


def _is_module(value: Any) -> bool:
    """:return: whether it is a module of the frontend, or of PyTorch"""
    return isinstance(value, rf.Module) or (hasattr(value, "named_modules") and hasattr(value, "named_parameters"))


def left_out_parts(model: Any) -> Iterator[str]:
    """
    :param model: of a user, a module of the frontend or of PyTorch
    :return: warnings: lists and dicts with parts that do not belong to the model, so that they are not trained
    """
    known = {id(part) for part in (*model.modules(), *model.parameters())}
    for path, module in model.named_modules():
        for name, value in vars(module).items():
            parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
            if any((_is_module(part) or isinstance(part, rf.Parameter)) and id(part) not in known for part in parts):
                of = "rf" if isinstance(module, rf.Module) else "torch.nn"
                which = f"{of}.{'ModuleList' if any(map(_is_module, parts)) else 'ParameterList'}"
                yield (
                    f"the attribute {name!r} of {path or 'the model'} is a {type(value).__name__}: what is in there is "
                    f"not trained, and not saved. {which}, or an attribute for each, makes it a part of the model."
                )


def _has_lengths_of_step(dim: Dim) -> bool:
    """:return: whether nothing says how long the dim is, but lengths of a batch, or nothing at all"""
    if dim.size is not None or dim.is_batch_dim() or dim.is_derived() or dim.length_rule is not None:
        return False
    return dim.dyn_size_ext is None or batch_dim in dim.dyn_size_ext.dims


def check_callable_with(option: str, function: Callable[..., Any], arguments: Mapping[str, Any], *, form: str) -> None:
    """
    :param option: of the config, which has the function
    :param function: of a user
    :param arguments: that it will get
    :param form: how it has to look like, for people
    :raises ConfigError: if it does not take them
    """
    try:
        inspect.signature(function).bind(**arguments)
    except TypeError as exc:
        raise ConfigError(
            f"option {option!r}: the function cannot be called, {exc}.\n  It has to be as: {form}."
        ) from exc
    except ValueError:  # some functions of C have no signature
        return
