"""
Which optimizer a config asks for: `optimizer = {"class": "adamw", "weight_decay": 1e-2, ...}`.

The class is one of `torch.optim`, in any case of letters, or a class. All of its arguments are options, but for the
learning rate, which is that of the config (`epsilon` is another name of `eps`). Further ones are `OwnOptions`.
"""

from __future__ import annotations

import fnmatch
import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

import returnn.frontend as rf
from returnn.config.option_types import annotation_of, check_type
from returnn.log import log
from returnn.torch.optim.own_options import OwnOptions
from returnn.util.errors import ConfigError, check_known
from returnn.util.texts.counted import counted

_WHERE = "option 'optimizer'"
_OWN_OPTIONS = tuple(inspect.signature(OwnOptions).parameters)
_WITHOUT_DECAY = (
    rf.Embedding,
    rf.LayerNorm,
    rf.BatchNorm,
    rf.GroupNorm,
    rf.RMSNorm,
    torch.nn.Embedding,
    torch.nn.LayerNorm,
    torch.nn.modules.batchnorm._BatchNorm,
    torch.nn.GroupNorm,
)
_UNUSABLE = ("optimizer", "lbfgs")  # the base class; computes the loss several times in a step
_ABOUT_DECAY = ("weight_decay_modules_blacklist", "weight_decay_custom_include_check")
_ARGUMENTS_OF_GROUPS = ("model", "rf_model", "optimizer_class", "optimizer_opts")
_ARGUMENTS_OF_CHECK = ("module", "rf_module", "full_param_name", "param_name")
MULTIPLIER = "learning_rate_multiplier"  # a key of groups of parameters


@dataclass(frozen=True)
class OptimizerChoice:
    """Class and options of an optimizer."""

    factory: Callable[..., torch.optim.Optimizer]
    options: Mapping[str, Any]  # of the class
    own_options: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in {**self.options, **self.own_options}.items())
        return f"{getattr(self.factory, '__name__', self.factory)}({options})"

    def create(
        self, parameters: Mapping[str, torch.nn.Parameter], model: Any, learning_rate: float
    ) -> torch.optim.Optimizer:
        """
        :param parameters: those that are trained, by name
        :param model: what `get_model` returned
        :param learning_rate: of the first step
        """
        groups = self._groups(parameters, model)
        factor = self.own_options.get(MULTIPLIER, 1.0)
        for group in groups:
            group[MULTIPLIER] = factor * group.get(MULTIPLIER, 1.0)
            group["lr"] = learning_rate * group[MULTIPLIER]
        try:
            return self.factory(groups, lr=learning_rate, **self.options)
        except (TypeError, ValueError) as exc:
            raise ConfigError(f"{_WHERE}: {self}: {exc}{self._refused(parameters)}") from exc

    def _refused(self, parameters: Mapping[str, torch.nn.Parameter]) -> str:
        """:return: which parameters the class does not take, and what to do; "" if that is not the reason"""
        refused = []
        for name, parameter in parameters.items():
            try:
                self.factory([parameter], lr=0.1, **self.options)
            except (TypeError, ValueError):
                refused.append(f"{name} {list(parameter.shape)}")
        if not refused or len(refused) == len(parameters):
            return ""
        more = f", and {counted(len(refused) - 5, 'more parameter')}" if len(refused) > 5 else ""
        return (
            f"\n  It does not take {', '.join(refused[:5])}{more}."
            "\n  A function 'param_groups_custom' selects those that it gets; what is in no group is not trained."
        )

    def _groups(self, parameters: Mapping[str, torch.nn.Parameter], model: Any) -> list[dict[str, Any]]:
        custom = self.own_options.get("param_groups_custom")
        if custom is not None:
            return _custom_groups(custom, model, self.factory, self.options)
        keeps_decay = _names_without_decay(model, self.own_options)
        has_decay = bool(self.options.get("weight_decay"))
        patterns = self.own_options.get("learning_rate_multipliers_by_patterns") or {}
        _check_patterns(patterns, parameters, model)
        groups: dict[tuple[float, bool], dict[str, Any]] = {}
        for name, parameter in parameters.items():
            multiplier = next((m for pattern, m in patterns.items() if fnmatch.fnmatch(name, pattern)), 1.0)
            is_decayed = not has_decay or name not in keeps_decay
            group = groups.setdefault((multiplier, is_decayed), {"params": [], MULTIPLIER: multiplier})
            group["params"].append(parameter)
            if not is_decayed:
                group["weight_decay"] = 0.0
        return list(groups.values())


def choose_optimizer(spec: Any) -> OptimizerChoice:
    """
    :param spec: name, class, or dict with "class" and options; None: gradient descent
    :raises ConfigError: if there is no such optimizer or option
    """
    options = dict(spec) if isinstance(spec, Mapping) else {"class": "sgd" if spec is None else spec}
    if "class" not in options:
        raise ConfigError(f"{_WHERE}: {options!r} has no 'class'.\n  E.g. {{'class': 'adamw', 'weight_decay': 1e-2}}.")
    name = options.pop("class")
    factory = _class_of(name)
    known = [parameter for parameter in inspect.signature(factory).parameters if parameter not in ("params", "lr")]
    if "epsilon" in options and "eps" in known:
        options["eps"] = options.pop("epsilon")
    for option in ("lr", "learning_rate"):
        if option in options:
            raise ConfigError(
                f"{_WHERE}: option {option!r} is not for here, as it changes during training.\n"
                "  Set 'learning_rate' of the config, and 'learning_rate_multiplier' here."
            )
    for option in options:
        check_known("option", option, [*known, *_OWN_OPTIONS], where=f"{_WHERE} {_name_of(name)!r}")
    own = {option: options.pop(option) for option in _OWN_OPTIONS if option in options}
    _check_own(own, has_decay=bool(options.get("weight_decay")))
    if isinstance(options.get("betas"), list):
        options["betas"] = tuple(options["betas"])
    if isinstance(name, str):
        _check_values(factory, options)
    if factory is torch.optim.Adafactor:
        _check_epsilon_of_adafactor(options.get("eps"))
    return OptimizerChoice(factory, options, own)


def optimizer_classes() -> dict[str, type[torch.optim.Optimizer]]:
    """:return: those of `torch.optim` that a config can name, by names in lower case"""
    found = {name.lower(): value for name, value in vars(torch.optim).items() if isinstance(value, type)}
    return {
        name: value
        for name, value in found.items()
        if issubclass(value, torch.optim.Optimizer) and name not in _UNUSABLE
    }


def _class_of(name: Any) -> Callable[..., torch.optim.Optimizer]:
    if not isinstance(name, str):
        if not callable(name):
            raise ConfigError(f"{_WHERE}: 'class' is {name!r}, neither a name nor a class.")
        return name
    classes = optimizer_classes()
    check_known("optimizer", name.lower(), classes, where=_WHERE)
    return classes[name.lower()]


def _check_epsilon_of_adafactor(eps: Any) -> None:
    """Warns of 1e-30, which the paper has and others: PyTorch divides by its square, which is 0 in float32."""
    first = eps[0] if isinstance(eps, (tuple, list)) and eps else None
    if isinstance(first, (int, float)) and first * first < torch.finfo(torch.float32).tiny:
        log.print_warning(
            f"{_WHERE} 'Adafactor': 'eps' {eps!r}: PyTorch takes the square of {first} as least variance, too small"
            " for float32, so that parameters become NaN where a row and a column of a gradient are 0, as those of"
            " words that are not in a batch.\n  At least 1e-18, or None for 1.2e-07, the default."
        )


def _check_own(given: Mapping[str, Any], *, has_decay: bool) -> None:
    """:raises ConfigError: if an option cannot have its value. What has no effect beside the others is warned of"""
    for option, value in given.items():
        check_type(option, value, annotation_of(OwnOptions.__init__, option), where=_WHERE)
    for entry in given.get("weight_decay_modules_blacklist") or ():
        _module_class(entry)
    function = given.get("param_groups_custom")
    if function is not None:
        _check_function("param_groups_custom", function, arguments=_ARGUMENTS_OF_GROUPS)
    is_decayed = given.get("weight_decay_custom_include_check")
    if is_decayed is not None:
        _check_function("weight_decay_custom_include_check", is_decayed, arguments=_ARGUMENTS_OF_CHECK)
    for option in (*_ABOUT_DECAY, "learning_rate_multipliers_by_patterns"):
        if given.get(option) and function is not None:
            log.print_warning(f"{_WHERE}: {option!r} has no effect beside 'param_groups_custom'.")
    for option in _ABOUT_DECAY:
        if given.get(option) and function is None and not has_decay:
            log.print_warning(f"{_WHERE}: {option!r} has no effect without 'weight_decay'.")


def _check_function(option: str, function: Any, *, arguments: Sequence[str]) -> None:
    """:raises ConfigError: if it cannot be called with these arguments"""
    form = f"It has to be as: def NAME(*, {', '.join(arguments)}, **kwargs)."
    if not callable(function):
        raise ConfigError(f"{_WHERE}: {option!r} is {function!r}, and no function.\n  {form}")
    try:
        signature = inspect.signature(function)
    except ValueError:
        return  # of a function that is not written in Python
    try:
        signature.bind(**dict.fromkeys(arguments))
    except TypeError as exc:
        raise ConfigError(f"{_WHERE}: {option!r}: the function cannot be called, {exc}.\n  {form}") from exc


def _check_values(factory: Callable[..., torch.optim.Optimizer], options: Mapping[str, Any]) -> None:
    """:raises ConfigError: if the class does not take these values, also of a matrix"""
    try:
        factory([torch.nn.Parameter(torch.zeros(1, 1))], lr=0.1, **options)
    except (TypeError, ValueError) as exc:
        raise ConfigError(f"{_WHERE}: {OptimizerChoice(factory, options)}: {exc}") from exc
    except RuntimeError:
        return  # it may be about the device


def _name_of(name: Any) -> str:
    return name if isinstance(name, str) else getattr(name, "__name__", repr(name))


def _custom_groups(function: Any, model: Any, optimizer_class: Any, options: Mapping[str, Any]) -> list[dict[str, Any]]:
    groups = function(
        model=model, rf_model=_rf_module(model), optimizer_class=optimizer_class, optimizer_opts=dict(options)
    )
    if not isinstance(groups, (list, tuple)) or not all(
        isinstance(group, Mapping) and "params" in group for group in groups
    ):
        raise ConfigError(
            f"{_WHERE}: 'param_groups_custom' has to return a list of dicts with 'params', not {groups!r}."
        )
    return [
        {**group, "params": [p.raw_tensor if isinstance(p, rf.Parameter) else p for p in group["params"]]}
        for group in groups
    ]


def _check_patterns(patterns: Mapping[str, float], parameters: Mapping[str, Any], model: Any) -> None:
    """
    A pattern that only frozen parameters fit is no error: a fine-tuning freezes a part, and keeps the optimizer.

    :raises ConfigError: if a pattern fits to no parameter of the model
    """
    for pattern in patterns:
        if fnmatch.filter(parameters, pattern):
            continue
        where = f"{_WHERE}: 'learning_rate_multipliers_by_patterns'"
        frozen = fnmatch.filter((name for name, _ in model.named_parameters()), pattern)
        if not frozen:
            raise ConfigError(
                f"{where}: no parameter is named as {pattern!r}.\n"
                f"  There are {', '.join(list(parameters)[:5])}{', ...' if len(parameters) > 5 else ''}."
            )
        such_as = f" ({frozen[0]!r})" if len(frozen) == 1 else f", such as {frozen[0]!r}"
        log.print_warning(
            f"{where}: {pattern!r} has no effect. It fits to {counted(len(frozen), 'parameter')}{such_as}, not trained "
            "(`trainable = False`, or `requires_grad = False`)."
        )


def _rf_module(module: Any) -> rf.Module | None:
    return module if isinstance(module, rf.Module) else None


def _names_without_decay(model: Any, own_options: Mapping[str, Any]) -> set[str]:
    """:return: names of parameters that get no weight decay"""
    blacklist, is_decayed = (own_options.get(option) for option in _ABOUT_DECAY)
    classes = _WITHOUT_DECAY if blacklist is None else tuple(_module_class(entry) for entry in blacklist)
    names: set[str] = set()
    for path, module in model.named_modules():
        for name, _ in _own_parameters(module):
            full_name = f"{path}.{name}" if path else name
            included = None
            if is_decayed is not None:
                included = is_decayed(
                    module=module, rf_module=_rf_module(module), full_param_name=full_name, param_name=name
                )
            if included is None:
                included = not (isinstance(module, classes) or name == "bias" or name.endswith("_bias"))
            if not included:
                names.add(full_name)
    return names


def _own_parameters(module: Any) -> list[tuple[str, Any]]:
    return list(module.named_parameters(recurse=False))


def _module_class(entry: Any) -> type:
    """:return: class of modules, by "rf.NAME", "torch.nn.NAME", or a path of its own"""
    if isinstance(entry, type):
        return entry
    where = f"{_WHERE}: 'weight_decay_modules_blacklist'"
    if not isinstance(entry, str) or "." not in entry:
        raise ConfigError(f"{where}: {entry!r} is no class, and no name such as 'rf.Embedding'.")
    module_name, _, name = entry.rpartition(".")
    module_name = "returnn.frontend" if module_name == "rf" else module_name
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as exc:
        raise ConfigError(f"{where}: there is no module {module_name!r}, of {entry!r}.") from exc
    classes = [key for key, value in vars(module).items() if isinstance(value, type)]
    check_known("class", name, classes, where=where)
    return getattr(module, name)
