"""
The task `check` for models of the frontend: the modules with their parameters, and whether a step fits together.

`get_model` and the steps run on templates: dims, dtypes and shapes come out, and no value is computed. So errors in
dims show within a second, also of a model that no memory would be enough for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import returnn.frontend as rf
from returnn.config import Config
from returnn.config.option_check import helper_errors, inspect_options, unsupported_text, warnings_about
from returnn.engine.best_model import best_model_options
from returnn.engine.data import TASK_DATA, datasets_of_all_tasks
from returnn.engine.data_identity import warn_of_other_labels
from returnn.engine.frontend.batch_arrays import needed_keys
from returnn.engine.frontend.extern_data import extern_data_of_config
from returnn.engine.frontend.functions import ModelFunctions
from returnn.engine.frontend.losses import check_objective
from returnn.engine.frontend.on_templates import check_outputs_of_task, on_templates, place_that_needs_values
from returnn.engine.frontend.outputs import hypotheses_are_wanted
from returnn.engine.frontend.preload_check import preload_errors
from returnn.engine.frontend.seen_labels import keys_of_seen_labels
from returnn.engine.frontend.watched_step import StepFindings, watched_step
from returnn.engine.hypothesis_files import check_file_format
from returnn.engine.learning_rate_control import check_dynamic_learning_rate
from returnn.engine.report.check_result import report_result
from returnn.engine.report.compared_lengths import ComparedDims, wrong_lengths
from returnn.engine.report.data_sample import DataSample, limits_of_data, load_sample, used_part
from returnn.engine.report.label_warnings import blank_label_warnings, end_label_warnings, unknown_label_warnings
from returnn.engine.report.learning_rate_warnings import (
    unknown_measure_text,
    unset_learning_rate_text,
    unused_learning_rates_text,
)
from returnn.engine.run.cleanup import cleanup_policy
from returnn.log import log
from returnn.tensor import TensorDict
from returnn.util.backend_engine import BackendEngine
from returnn.util.errors import DimError, UserError
from returnn.util.python.optional_import import import_part
from returnn.util.python.user_code_errors import text_with_place
from returnn.util.texts.counted import counted
from returnn.util.texts.text_scores import check_metrics

_INDENT = "  "
_MOST_PARAMS_TO_COMPUTE = 50_000_000  # a step of these takes about a second


def check_model(config: Config) -> None:
    """
    :param config: with `get_model`, `train_step`, maybe `forward_step`
    :raises ConfigError: if there is an error
    """
    errors = _option_errors(config)
    looked_at = ["options", "optimizer"]
    templates: TensorDict | None = None
    try:
        templates = extern_data_of_config(config)
        looked_at.append("extern_data")
    except UserError as exc:
        errors.append(str(exc))
    if templates is not None:
        found = StepFindings()
        model_errors, num_params = _model_errors(config, templates, looked_at, found)
        errors += [text for text in model_errors if text not in errors]
        if config.options.check_data:
            samples: dict[str, DataSample] = {}
            errors += _data_errors(config, templates, looked_at, samples, found.compared)
            found.warnings += end_label_warnings(found.compared, found.predicted, samples.values(), templates.data)
            found.warnings += blank_label_warnings(found.compared, samples, templates.data)
            for text in unknown_label_warnings(samples):
                log.print_warning(text)
            is_computed = num_params <= _MOST_PARAMS_TO_COMPUTE and "train_step" in looked_at
            if not errors and is_computed and "train" in samples and not found.mixes_frames:
                errors += _look_at_seen_labels(config, samples["train"], looked_at)
        for text in dict.fromkeys(found.warnings):
            log.print_warning(f"train_step: {text}")
    if not errors:
        warn_of_other_labels(config)
    report_result(", ".join(looked_at), errors)


def _option_errors(config: Config) -> list[str]:
    """:return: errors; names that may be right are warned of"""
    options = inspect_options(config)
    misspelt = [f"there is no option {name!r}. Did you mean {known!r}?" for name, known in options.misspelt.items()]
    is_error = not config.options.allow_unknown_options
    for text in [] if is_error else misspelt:
        log.print_warning(text)
    for text in warnings_about(options, config.options.backend):
        log.print_warning(text)
    if config.has("train"):
        for text in filter(None, (unset_learning_rate_text(config), unused_learning_rates_text(config))):
            log.print_warning(text)
    unsupported = [unsupported_text(name, config.options.backend) for name in options.unsupported]
    return [
        *(f"config: {text}" for text in misspelt if is_error),
        *unsupported,
        *options.wrong,
        *helper_errors(config),
        *_choice_errors(config),
    ]


def _choice_errors(config: Config) -> list[str]:
    """:return: errors of options that choose something by name"""
    is_torch = BackendEngine.is_torch_selected()
    module = import_part(
        "returnn.torch.optim.optimizer_choice" if is_torch else "returnn.tf.updater.optimizer_choice",
        needed_for=BackendEngine.describe_selected(),
    )
    errors = []
    for check in (
        lambda: module.choose_optimizer(config.options.optimizer if is_torch else config),
        lambda: check_metrics(config.options.search_metrics, where="option 'search_metrics'"),
        lambda: check_file_format(config.options.search_output_file_format),
        lambda: cleanup_policy(config.options.cleanup_old_models),
        lambda: best_model_options(config),
        lambda: _check_step_rules(config, is_torch=is_torch),
    ):
        try:
            check()
        except UserError as exc:
            errors.append(str(exc))
    return errors


def _check_step_rules(config: Config, *, is_torch: bool) -> None:
    module = import_part(
        "returnn.torch.optim.step_rules" if is_torch else "returnn.tf.updater.gradient_options",
        needed_for=BackendEngine.describe_selected(),
    )
    if is_torch:
        module.check_step_rules(config)
    else:
        check_dynamic_learning_rate(config.options.dynamic_learning_rate)
        module.GradientOptions.from_config(config)


def _model_errors(
    config: Config, templates: TensorDict, looked_at: list[str], found: StepFindings
) -> tuple[list[str], int]:
    """:return: errors, number of entries of all parameters. What is found in the steps is added to `found`"""
    errors: list[str] = []
    with on_templates(config) as functions:
        try:
            model = functions.make_model(epoch=1, step=0)
        except UserError as exc:
            return [f"get_model: {text_with_place(exc)}"], 0
        looked_at.append("get_model")
        for line in describe_modules(model):
            print(line, file=log.v1)
        steps = {"train_step": _look_at_train_step, "forward_step": _look_at_forward_step}
        for name, look_at in steps.items():
            if getattr(config.options, name) is not None:
                with watched_step(templates.data) as of_step:
                    errors += _errors_of_step(
                        name, lambda look_at=look_at: look_at(functions, model, templates), looked_at
                    )
                if name == "train_step":
                    vars(found).update(vars(of_step))
                else:  # what is infinite there is a result
                    found.compared += (dims for dims in of_step.compared if dims.if_too_long != "error")
    if config.options.preload_from_files:
        errors += _preload_errors(config, model)
        looked_at.append("preload_from_files")
    if config.has("train") and BackendEngine.is_torch_selected():
        errors += _optimizer_errors(config, model)
    params = set(model.parameters()) if isinstance(model, rf.Module) else ()
    return errors, sum(map(_num_entries, params))


def _preload_errors(config: Config, model: Any) -> list[str]:
    try:
        return list(preload_errors(config, model))
    except UserError as exc:
        return [str(exc)]


def _optimizer_errors(config: Config, model: Any) -> list[str]:
    """:return: that the optimizer cannot have the parameters of the model, of which this makes raw ones"""
    module = import_part("returnn.torch.optim.optimizer_check", needed_for=BackendEngine.describe_selected())
    try:
        module.check_optimizer_of_model(config, model)
    except UserError as exc:
        return [str(exc)]
    return []


def _errors_of_step(name: str, look_at: Callable[[], None], looked_at: list[str]) -> list[str]:
    """:return: errors. If there are none, its name is added to `looked_at`, unless it needs values"""
    try:
        look_at()
    except Exception as exc:
        place = place_that_needs_values(exc)
        if place is not None:
            print(
                f"{name}: not looked at. In {place.filename}, line {place.lineno}, {place.name}, it works on raw "
                f"tensors, and a check has none ({type(exc).__name__}: {str(exc).splitlines()[0]}).",
                file=log.v1,
            )
            return []
        if isinstance(exc, UserError):
            return [f"{name}: {text_with_place(exc)}"]
        raise
    looked_at.append(name)
    return []


def _look_at_train_step(functions: ModelFunctions, model: Any, templates: TensorDict) -> None:
    ctx = functions.train_step(model, templates, train_flag=True, step=0, epoch=1)
    for name, loss in ctx.losses.items():
        print(f"{'error' if loss.as_error else 'loss'} {name}: {_dims(loss.loss)}", file=log.v1)
    if functions.config.has("train"):
        check_objective(ctx.losses)
        if text := unknown_measure_text(functions.config, ctx.losses):
            log.print_warning(text)


def _look_at_forward_step(functions: ModelFunctions, model: Any, templates: TensorDict) -> None:
    ctx = functions.forward_step(model, templates, step=0, epoch=1)
    for name, output in ctx.outputs.data.items():
        print(f"output {name}: {_dims(output)}", file=log.v1)
    config = functions.config
    needs_output = {
        "search": config.has("search_data") and hypotheses_are_wanted(config),
        "forward": config.has("forward_data") and config.options.forward_callback is None,
    }
    for task, is_needed in needs_output.items():
        if is_needed:
            check_outputs_of_task(config, ctx.outputs, task)


def _look_at_seen_labels(config: Config, sample: DataSample, looked_at: list[str]) -> list[str]:
    """
    Warns of models that see the labels which they predict.

    :return: errors: of a training with the same backend, the step would be the same
    """
    backend = "torch" if BackendEngine.is_torch_selected() else "numpy"  # graphs of TensorFlow take seconds
    try:
        seen = list(keys_of_seen_labels(config, sample.example, backend=backend))
    except Exception as exc:  # noqa: BLE001  code of the user, on a backend that may not be the one it is for
        if isinstance(exc, (UserError, IndexError) if backend == "torch" else DimError):  # others: about the backend
            return [f"train_step, with data: {text_with_place(exc)}"]
        text = f"it cannot be computed with {backend} ({type(exc).__name__}: {exc})"
        print(f"train_step: not looked at whether it sees the labels that it predicts: {text}.", file=log.v1)
        return []
    looked_at.append("whether it sees what it predicts")
    for key in seen:
        log.print_warning(
            f"train_step: the model sees the labels of {key!r} that it predicts, so it learns to copy them. For the "
            "labels before, there is rf.shift_right(labels, axis=..., pad_value=...); rf.CausalSelfAttention sees no "
            "label behind."
        )
    return []


def _data_errors(
    config: Config,
    templates: TensorDict,
    looked_at: list[str],
    samples: dict[str, DataSample],
    compared: Sequence[ComparedDims],
) -> list[str]:
    errors = []
    for name, load in datasets_of_all_tasks(config).items():
        try:
            dataset = load()
            if dataset is None:
                continue
            needed_keys(dataset, templates, with_targets=name not in TASK_DATA)
            limits = limits_of_data(config, name)
            sample = load_sample(dataset, templates.data, limits=limits)
            samples[name] = sample
            looked_at.append(f"data {name!r}: {sample.described()}")
            used = used_part(sample, limits)
            wrong, warnings = wrong_lengths(compared, used, templates.data)
            errors += [f"{name}: {text}" for text in wrong]
            for text in warnings:
                log.print_warning(f"{name}: {text}")
        except UserError as exc:
            errors.append(f"{name}: {exc}")
    return errors


def describe_modules(model: Any) -> Iterator[str]:
    """
    :param model: what `get_model` returned
    :return: lines: each module, its parameters with their dims, and how many entries there are in all
    """
    if not isinstance(model, rf.Module):
        yield f"{type(model).__name__}: a module of another library, whose parameters are not looked at"
        return
    total = 0
    seen: set[int] = set()
    for path, module in model.named_modules():
        depth = path.count(".") + 1 if path else 0
        count = sum(_num_entries(param) for param in module.parameters())
        name = path.rpartition(".")[2] or "model"
        yield f"{_INDENT * depth}{name}: {type(module).__name__}, {counted(count, 'parameter', ',')}"
        for name, param in module.named_parameters(recurse=False):
            marks = "" if param.trainable else ", not trained"
            if id(param) in seen:
                marks += ", shared"
            else:
                total += _num_entries(param)
            seen.add(id(param))
            yield f"{_INDENT * (depth + 1)}{name}: {_dims(param)}{marks}"
    yield f"{counted(total, 'parameter', ',')} in all"


def _num_entries(param: rf.Parameter) -> int:
    count = 1
    for dim in param.dims:
        count *= dim.size or 0
    return count


def _dims(tensor: rf.Tensor) -> str:
    return f"[{', '.join(_short(dim) for dim in tensor.dims)}] {tensor.dtype}"


def _short(dim: rf.Dim) -> str:
    if dim.is_batch_dim():
        return "B"
    name = dim.name or re.sub(rf"\({dim.size}\)$", "", dim.short_repr())  # of what it was computed from
    return f"{name}={dim.size}" if dim.size is not None else name
