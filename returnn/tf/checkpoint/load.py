"""
Loads parameters from a checkpoint by their names.

In a checkpoint, names may have another prefix than in the network, some may be missing, others superfluous, a layer
may import its parameters in a way of its own (`custom_param_importer`), an LSTM may have had another unit, cells had
other names in earlier versions of TensorFlow, and names of PyTorch have dots in place of slashes.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy
import tensorflow as tf

from returnn.log import log
from returnn.tf.checkpoint.assign import ValueOfVariable, set_custom_post_init
from returnn.tf.checkpoint.earlier_names import by_names_of_today
from returnn.tf.checkpoint.files import CheckpointError, get_checkpoint_filepattern
from returnn.tf.checkpoint.other_lstms import find_other_lstms
from returnn.tf.checkpoint.verify import open_checkpoint, read_tensor
from returnn.tf.util.parameters.assign import assign_values
from returnn.util.files.checkpoint_misfits import Misfit, misfit_of, misfits_text, warn_of_misspelt
from returnn.util.files.checkpoint_names import same_but_for_dots
from returnn.util.texts.counted import counted, some_of

_NOT_CRITICAL = "_returnn_non_critical_for_restore"  # attribute of variables which a checkpoint need not have
_IF_CHANGED = "Was the network changed? A new 'model' begins anew."


class CustomLoadParamFunc(Protocol):
    """A user's function for parameters that are not in the checkpoint."""

    def __call__(self, *, name: str, shape: tuple[int, ...], reader: tf.train.CheckpointReader) -> numpy.ndarray | None:
        """
        :param name: in the checkpoint, where it would be
        :return: value of that shape; None if there is none
        """


class LayerWithImporter(Protocol):
    """A layer, as far as loading needs it."""

    @property
    def params(self) -> Mapping[str, tf.Variable]:
        """By name."""

    @property
    def custom_param_importer(self) -> str | Callable[..., Any] | None:
        """Brings values from elsewhere into the parameters."""

    def get_absolute_name(self) -> str:
        """:return: e.g. "decoder/att" """

    def set_param_values_by_dict(self, values_dict: Mapping[str, numpy.ndarray], session: tf.compat.v1.Session) -> None:
        """Sets the parameters, with `custom_param_importer`."""


class NetworkWithLayers(Protocol):
    """A network, as far as loading needs it."""

    def get_all_layers_deep(self) -> Iterable[LayerWithImporter]:
        """:return: all layers, with those of subnetworks"""


@dataclass(frozen=True)
class VariableValue:
    """Where one variable gets its value from: the checkpoint, or the importer of its layer."""

    read: Callable[[], numpy.ndarray] | None = None
    importer: CustomParamImporter | None = None


class CustomParamImporter:
    """Gives a layer with `custom_param_importer` all values of the checkpoint that have its prefix."""

    def __init__(self, layer: LayerWithImporter, prefix: str, read: Mapping[str, Callable[[], numpy.ndarray]]):
        """
        :param prefix: of names in the checkpoint, e.g. "decoder/att/"
        :param read: name in the checkpoint without the prefix -> function that reads the value
        """
        self.layer = layer
        self.prefix = prefix
        self._read = read

    def assign(self, session: tf.compat.v1.Session) -> None:
        """Sets all parameters of the layer."""
        self.layer.set_param_values_by_dict({name: read() for name, read in self._read.items()}, session)


class CustomCheckpointLoader:
    """Finds a value in a checkpoint for each variable. Then `load_now`, or `set_as_custom_init`."""

    CustomParamImporter = CustomParamImporter
    VariableValue = VariableValue

    def __init__(
        self,
        filename: str,
        saveable_params: Sequence[tf.Variable],
        params_prefix: str = "",
        load_if_prefix: str = "",
        ignore_missing: bool = False,
        ignore_params: Collection[str] = (),
        ignore_params_prefixes: Collection[str] = (),
        var_name_mapping: Mapping[str, str] | None = None,
        network: NetworkWithLayers | None = None,
        custom_missing_load_func: CustomLoadParamFunc | None = None,
    ):
        """
        :param filename: checkpoint, with or without the suffix of one of its files
        :param saveable_params: the variables
        :param params_prefix: all variables have it; names in the checkpoint do not
        :param load_if_prefix: load only variables whose name contains it; names in the checkpoint do not
        :param ignore_missing: a variable that is not in the checkpoint keeps its value
        :param ignore_params: do not load these, by their names in the checkpoint
        :param ignore_params_prefixes: do not load those whose name in the checkpoint starts with one of these
        :param var_name_mapping: name in the network (without `params_prefix`) -> name in the checkpoint
        :param network: for `custom_param_importer` of its layers
        :param custom_missing_load_func: for variables that are not in the checkpoint
        :raises CheckpointError: if the checkpoint is missing or damaged, or has no value for a variable
        """
        self.filepattern = get_checkpoint_filepattern(filename)
        self.params_prefix = params_prefix
        self.load_if_prefix = load_if_prefix
        self.ignore_missing = ignore_missing
        self.network = network
        self.custom_missing_load_func = custom_missing_load_func
        self.var_name_mapping = dict(var_name_mapping or {})
        self.reader = open_checkpoint(self.filepattern)
        self._shapes = {name: tuple(shape) for name, shape in self.reader.get_variable_to_shape_map().items()}
        self.var_ckpt_names = set(self._shapes)

        names = self._named_as_there(
            {self._name_in_checkpoint(var): var for var in saveable_params if load_if_prefix in var.op.name}
        )
        self.net_vars = {
            name: var
            for name, var in names.items()
            if name not in ignore_params and not name.startswith(tuple(ignore_params_prefixes))
        }
        self.var_net_names = set(self.net_vars)
        self.custom_param_importers = self._find_importers()
        missing = self.var_net_names - self.var_ckpt_names - self._imported_names()
        other_lstms = find_other_lstms(missing, self.var_ckpt_names - self.var_net_names)
        self._converted = {name: lstm for lstm in other_lstms for name in lstm.target_names}
        self._used_by_others = {name for lstm in other_lstms for name in lstm.source_names}
        missing -= set(self._converted)
        self._optional = {name for name in missing if hasattr(self.net_vars[name], _NOT_CRITICAL)}
        self.missing_non_critical_var_names = sorted(self._optional | set(filter(_is_not_critical, missing)))
        self.missing_var_names = sorted(missing - set(self.missing_non_critical_var_names))
        self.obsolete_var_names = sorted(filter(self._is_obsolete, self.var_ckpt_names - set(names)))
        self._report()

    def get_variable_value_map(self) -> dict[object, VariableValue]:
        """
        :return: variable's `ref()` -> where its value comes from; without those that keep their value
        :raises CheckpointError: if values have other shapes
        """
        by_importer = {var.ref(): imp for imp in self.custom_param_importers for var in imp.layer.own_params.values()}
        found: dict[object, VariableValue] = {}
        misfits: list[Misfit] = []
        for name, var in self.net_vars.items():
            if var.ref() in by_importer:
                found[var.ref()] = VariableValue(importer=by_importer[var.ref()])
            elif read := self._reader_of(name, var, misfits):
                found[var.ref()] = VariableValue(read=read)
        if misfits:
            raise CheckpointError(f"checkpoint {self.filepattern!r}: {misfits_text(misfits, advice=_IF_CHANGED)}")
        return found

    def warn_of_misspelt(self, where: str) -> None:
        """
        Where parameters may be missing in the checkpoint: says which one looks like a mistake.

        :param where: the option that names the file
        """
        if self.custom_missing_load_func is None:
            missing = {name: self.net_vars[name].shape.as_list() for name in self.missing_var_names}
            warn_of_misspelt(where, missing=missing, spare={x: self._shapes[x] for x in self.obsolete_var_names})

    def load_now(self, session: tf.compat.v1.Session) -> None:
        """Sets all variables."""
        values = self.get_variable_value_map()
        assign_values(session, {ref: value.read() for ref, value in values.items() if value.read})
        for importer in self.custom_param_importers:
            importer.assign(session)

    def set_as_custom_init(self) -> None:
        """The variables will be set when the network is initialized."""
        for ref, value in self.get_variable_value_map().items():
            var = ref.deref()
            set_custom_post_init(var, ValueOfVariable(var, value.read) if value.read else value.importer.assign)

    # Names.

    def _name_in_checkpoint(self, var: tf.Variable) -> str:
        name = var.op.name
        if not name.startswith(self.params_prefix):
            raise CheckpointError(f"parameter {name!r} does not start with the prefix {self.params_prefix!r}.")
        name = name.removeprefix(self.params_prefix)
        return self.var_name_mapping.get(name) or name.replace(self.load_if_prefix, "", 1)

    def _named_as_there(self, variables: Mapping[str, tf.Variable]) -> dict[str, tf.Variable]:
        spare = self.var_ckpt_names.difference(variables)
        earlier = {today: name for today, name in by_names_of_today(spare).items() if today not in self.var_ckpt_names}
        other = earlier | same_but_for_dots(variables, self.var_ckpt_names)
        return {other.get(name, name): var for name, var in variables.items()}

    def _is_obsolete(self, name: str) -> bool:
        return not (_is_not_critical(name) or name in self._used_by_others or name in self._imported_names())

    def _find_importers(self) -> list[CustomParamImporter]:
        layers = self.network.get_all_layers_deep() if self.network else ()
        return [
            self._importer_of(layer) for layer in layers if layer.custom_param_importer and self._loads_params_of(layer)
        ]

    def _loads_params_of(self, layer: LayerWithImporter) -> bool:
        loaded = {var.ref() for var in self.net_vars.values()}
        return any(var.ref() in loaded for var in layer.own_params.values())

    def _importer_of(self, layer: LayerWithImporter) -> CustomParamImporter:
        prefix = f"{layer.get_absolute_name()}/".removeprefix(self.params_prefix).replace(self.load_if_prefix, "", 1)
        names = [name for name in sorted(self.var_ckpt_names) if name.startswith(prefix)]
        return CustomParamImporter(layer, prefix, {name.removeprefix(prefix): self._reading(name) for name in names})

    def _imported_names(self) -> set[str]:
        """:return: names in the network and in the checkpoint that importers take care of"""
        refs = {var.ref() for importer in self.custom_param_importers for var in importer.layer.own_params.values()}
        in_network = {name for name, var in self.net_vars.items() if var.ref() in refs}
        prefixes = tuple(importer.prefix for importer in self.custom_param_importers)
        return in_network | {name for name in self.var_ckpt_names if prefixes and name.startswith(prefixes)}

    # Values.

    def _reading(self, name: str) -> Callable[[], numpy.ndarray]:
        return lambda: read_tensor(self.reader, name, checkpoint=self.filepattern)

    def _reader_of(self, name: str, var: tf.Variable, misfits: list[Misfit]) -> Callable[[], numpy.ndarray] | None:
        if name in self.var_ckpt_names:
            misfits += _misfits_of(name, var, self._shapes[name])
            return lambda: _as_dtype(self._reading(name)(), var)
        if name in self._converted:
            try:
                value = self._converted[name].value(name, lambda name: self._reading(name)())
            except ValueError as exc:
                raise CheckpointError(
                    f"checkpoint {self.filepattern!r}: LSTM {self._converted[name]}: its shapes are of no plain LSTM, "
                    "so that it cannot be converted.\n  Take the unit that it was trained with."
                ) from exc
            misfits += _misfits_of(name, var, value.shape)
            return lambda: _as_dtype(value, var)
        if (name in self.missing_var_names or name in self._optional) and self.custom_missing_load_func:
            shape = tuple(var.shape.as_list())
            value = self.custom_missing_load_func(name=name, shape=shape, reader=self.reader)
            if value is not None:
                misfits += _misfits_of(name, var, numpy.shape(value))
                return lambda: _as_dtype(numpy.asarray(value), var)
        if name in self.missing_var_names and not self.ignore_missing:
            raise self._missing_error([name])
        return None

    # Messages.

    def _report(self) -> None:
        missing = self.missing_var_names
        if missing and not (self.ignore_missing or self.custom_missing_load_func):
            raise self._missing_error(missing)
        for lstm in dict.fromkeys(self._converted.values()):
            print(f"{self.filepattern}: LSTM {lstm}, converted.", file=log.v3)
        for what, names in (
            ("not in the checkpoint, keep their value", [] if self.custom_missing_load_func else missing),
            ("not critical and not in the checkpoint, keep their value", sorted(self._optional)),
            ("of the optimizer not in the checkpoint, start anew", self._missing_of_optimizer()),
            ("only in the checkpoint, are not loaded", [] if self.load_if_prefix else self.obsolete_var_names),
        ):
            if names:
                print(f"{self.filepattern}: {len(names)} {what}: {some_of(names)}.", file=log.v3)

    def _missing_of_optimizer(self) -> list[str]:
        return [name for name in self.missing_non_critical_var_names if name not in self._optional]

    def _missing_error(self, missing: Sequence[str]) -> CheckpointError:
        shared = sorted(self.var_net_names & self.var_ckpt_names - self._imported_names())
        misfits = [misfit for name in shared for misfit in _misfits_of(name, self.net_vars[name], self._shapes[name])]
        similar = difflib.get_close_matches(missing[0], self.obsolete_var_names, n=3)
        lines = [
            f"checkpoint {self.filepattern!r}: {len(missing)} of {counted(len(self.net_vars), 'parameter')} are not "
            "in it: "
            f"{some_of(missing)}.",
            f"  For {missing[0]!r}: did you mean {' or '.join(map(repr, similar))}?" if similar else "",
            f"  Only in the checkpoint: {some_of(self.obsolete_var_names)}." if self.obsolete_var_names else "",
            "  'load_ignore_missing_vars = True' leaves them at random; in 'preload_from_files' and 'load_on_init', "
            "'ignore_missing': True does, and 'var_name_mapping' renames.",
            f"  Beside that, {misfits_text(misfits)}" if misfits else "",
        ]
        return CheckpointError("\n".join(filter(None, lines)))


def _misfits_of(name: str, var: tf.Variable, shape: tuple[int, ...]) -> list[Misfit]:
    """:return: none if the shape in the checkpoint is that of the variable"""
    misfit = misfit_of(name, shape, var.op.name, var.shape.as_list())
    return [] if misfit is None else [misfit]


def _is_not_critical(name: str) -> bool:
    """:return: whether it belongs to the training alone: slots of the optimizer, learning rate, number of the step"""
    return name.startswith("optimize/") or name in ("global_step", "learning_rate")


def _as_dtype(value: numpy.ndarray, var: tf.Variable) -> numpy.ndarray:
    """:return: floating point numbers in the precision of the variable"""
    dtype = var.dtype.base_dtype
    source = tf.as_dtype(value.dtype)
    if source == dtype:
        return value
    if source.is_floating and dtype.is_floating:
        return value.astype(dtype.as_numpy_dtype)
    raise CheckpointError(f"parameter {var.op.name!r} has dtype {dtype.name}, but the value has {source.name}.")
