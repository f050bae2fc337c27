"""
Whether values of files fit the parameters of a model, for option `preload_from_files`, see
`returnn.config.preloaded_file`, and for its own checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from returnn.config.preloaded_file import PreloadedFile
from returnn.engine.report.initial_values import warn_of_initial_values
from returnn.util.errors import ConfigError, nearest_hint
from returnn.util.files.checkpoint_files import CheckpointError
from returnn.util.files.checkpoint_misfits import Misfit, misfit_of, misfits_text, warn_of_misspelt
from returnn.util.files.checkpoint_names import same_but_for_dots
from returnn.util.texts.counted import counted, some_of

_IF_CHANGED = "Was the model changed? A new 'model' begins anew."


@dataclass(frozen=True)
class ValuesToPreload(PreloadedFile):
    """One entry, for the parameters of a model in Python."""

    checkpoint_key: str | None = "model"  # under which the file has the parameters; None: it has nothing else

    def values(self, parameters: Mapping[str, Any], content: Mapping[str, Any]) -> dict[str, Any]:
        """
        :param parameters: of the model, by name
        :param content: of the file
        :return: values of the parameters that the file is for, by their names in the model
        :raises ConfigError: if the file does not fit
        """
        where = self.where
        if self.checkpoint_key and self.checkpoint_key in content:
            content = content[self.checkpoint_key]
        self.warn_of_names_without_effect(in_file=content, in_model=parameters)
        names = {name: self.var_name_mapping.get(name, name.removeprefix(self.prefix)) for name in parameters}
        other = same_but_for_dots(names.values(), content)
        values = {}
        missing: dict[str, str] = {}  # by name in the model: name in the file
        misfits: list[Misfit] = []
        for name, parameter in parameters.items():
            wanted = names[name]
            if not name.startswith(self.prefix) or self._is_ignored(name) or self._is_ignored(wanted):
                continue
            value = content.get(other.get(wanted, wanted))
            if value is None and self.custom_missing_load_func is not None:
                value = self.custom_missing_load_func(
                    name=name, shape=tuple(parameter.shape), preload_model_state=content
                )
            if value is None:
                missing[name] = wanted
                continue
            if misfit := misfit_of(other.get(wanted, wanted), value.shape, name, parameter.shape):
                misfits.append(misfit)
            values[name] = value
        if self.ignore_missing:
            used = {*names.values(), *other.values()}
            left = [name for name in content if not (name in used or self._is_ignored(name))]
            warn_of_misspelt(
                where,
                missing={wanted: parameters[name].shape for name, wanted in missing.items()},
                spare={name: content[name].shape for name in left if hasattr(content[name], "shape")},
            )
            missing = {}
        if missing or misfits:
            texts = [self._missing_text(missing, content)] if missing else []
            texts += [misfits_text(misfits)] if misfits else []
            raise ConfigError(f"{where}: the file {self.filename!r} does not fit: " + "\n  Beside that, ".join(texts))
        if not values:
            what = f"no parameter of the model begins with {self.prefix!r}"
            if any(name.startswith(self.prefix) for name in parameters):
                what = f"all parameters are ignored, or the file {self.filename!r} has none of them"
            raise ConfigError(f"{where}: {what}, so nothing is loaded.{_nested_hint(content)}")
        return values

    def _missing_text(self, missing: Mapping[str, str], content: Mapping[str, Any]) -> str:
        name, wanted = next(iter(missing.items()))
        more = f" (and {counted(len(missing) - 1, 'other')}: {some_of([*missing.values()][1:])})" * (len(missing) > 1)
        return (
            f"it has no {wanted!r}, for the parameter {name!r}{more}.\n"
            f"  {nearest_hint(wanted, content)} 'ignore_missing' leaves out such parameters.{_nested_hint(content)}"
        )

    def _is_ignored(self, name: str) -> bool:
        return name in self.ignore_params or name.startswith(tuple(self.ignore_params_prefixes) or ("\0",))


def _nested_hint(content: Mapping[str, Any]) -> str:
    """:return: which keys of the file may have the parameters, as those of other toolkits do; empty if none"""
    nested = [
        key
        for key, value in content.items()
        if isinstance(value, Mapping) and any(hasattr(entry, "shape") for entry in value.values())
    ]
    if not nested:
        return ""
    return f"\n  The file has parameters in {some_of(nested)}: 'checkpoint_key' says in which, as {nested[0]!r}."


def check_fit(
    parameters: Mapping[str, Any],
    values: Mapping[str, Any],
    *,
    filename: str,
    leave_out: Collection[str],
    ignore_missing: bool,
    non_critical: Collection[str],
    other_names: Callable[[str], bool],
) -> None:
    """
    :param parameters: of the model, by name: objects with a shape
    :param values: of a checkpoint, by name
    :param filename: of the checkpoint
    :param leave_out: names of parameters that have their values already
    :param ignore_missing: whether the checkpoint may have fewer of them
    :param non_critical: names of parameters that may be missing in any case
    :param other_names: whether it is another name of a parameter, which several modules share
    :raises CheckpointError: if the checkpoint does not fit
    """
    missing = [name for name in parameters if name not in {*values, *leave_out, *non_critical}]
    if missing and not ignore_missing:
        raise CheckpointError(
            f"checkpoint {filename!r}: it lacks {counted(len(missing), 'parameter')} of the model, such as "
            f"{missing[0]!r}.\n"
            f"  {nearest_hint(missing[0], values)} {_IF_CHANGED}\n"
            "  'load_ignore_missing_vars' leaves them as they are."
        )
    if missing:
        warn_of_initial_values(missing, filename=filename)
    unknown = [name for name in values if name not in parameters and not other_names(name)]
    if unknown:
        raise CheckpointError(
            f"checkpoint {filename!r}: the model has no parameter {unknown[0]!r}"
            f"{f', nor {len(unknown) - 1} others' if len(unknown) > 1 else ''}.\n"
            f"  {nearest_hint(unknown[0], parameters)} {_IF_CHANGED}"
        )
    loaded = {name: param for name, param in parameters.items() if name in values and name not in leave_out}
    found = (misfit_of(name, values[name].shape, name, param.shape) for name, param in loaded.items())
    misfits = [misfit for misfit in found if misfit is not None]
    if misfits:
        raise CheckpointError(f"checkpoint {filename!r}: {misfits_text(misfits, advice=_IF_CHANGED)}")
