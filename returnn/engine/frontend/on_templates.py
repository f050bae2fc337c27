"""
Functions of a config on templates: dims, dtypes and shapes come out, and no value is computed.

So it is known within a second whether a step fits together, and whether it has the outputs of a task. A step that
calls another library on raw tensors cannot run so, as there are none.
"""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator
from typing import Any

import returnn.frontend as rf
from returnn.config import Config
from returnn.engine.frontend.functions import ModelFunctions
from returnn.engine.frontend.outputs import check_hypotheses
from returnn.tensor import Tensor, TensorDict, batch_dim
from returnn.util.backend_engine import BackendEngine
from returnn.util.errors import UserError, check_known
from returnn.util.python.missing_values import EndlessReadsError, NoValueError, limited_reads
from returnn.util.python.user_code_errors import last_place_of_user


@contextlib.contextmanager
def on_templates(config: Config) -> Iterator[ModelFunctions]:
    """:return: context in which functions of the config run on templates"""
    dtype = config.options.default_float_dtype or rf.get_default_float_dtype()
    before = batch_dim.dyn_size_ext
    with rf.backend_ctx("template"), rf.set_default_float_dtype_ctx(dtype), limited_reads():
        # A batch has some number of sequences, as in a run, where means over the batch need it.
        batch_dim.dyn_size_ext = Tensor("batch:size", [], "int32")
        try:
            yield ModelFunctions(config)
        finally:
            batch_dim.dyn_size_ext = before
            rf.reset_run_ctx()


def place_that_needs_values(exc: Exception) -> traceback.FrameSummary | None:
    """
    :param exc: of a step on templates
    :return: where code of the config needs a value, and there is none; None if the error is another one
    """
    if isinstance(exc, EndlessReadsError):
        return exc.place
    if isinstance(exc, NoValueError) and BackendEngine.is_torch_selected():  # graphs have none in a run either
        return last_place_of_user(exc)
    is_of_none = isinstance(exc, (TypeError, AttributeError, ValueError)) and "None" in str(exc)
    return last_place_of_user(exc) if is_of_none and not isinstance(exc, UserError) else None


def check_outputs(config: Config, model: Any, templates: TensorDict, task: str) -> None:
    """
    :param config: says which output the task needs
    :param model: what `get_model` returned. One of another library is not looked at, but for there being a step
    :param templates: of the data
    :param task: "search" or "forward"
    :raises UserError: if `forward_step` is missing, or has no output for the task
    """
    with on_templates(config) as functions:
        if not isinstance(model, rf.Module):
            functions.required("forward_step")
            return
        try:
            outputs = functions.forward_step(functions.make_model(epoch=1, step=0), templates, step=0, epoch=1).outputs
        except Exception as exc:
            if place_that_needs_values(exc) is None:
                raise
            return
        check_outputs_of_task(config, outputs, task)


def check_outputs_of_task(config: Config, outputs: TensorDict, task: str) -> None:
    """
    :param config: says which output the task needs
    :param outputs: of `forward_step`
    :param task: "search" or "forward"
    :raises ConfigError: if there is none
    """
    if task == "search":
        name = config.options.search_output_layer[0]
        check_known("output", name, outputs.data, where="option 'search_output_layer'")
        check_hypotheses(outputs[name])
    else:
        name = config.options.forward_output_layer
        check_known("output", name, outputs.data, where="option 'forward_output_layer'")
