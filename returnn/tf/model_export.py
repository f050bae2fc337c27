"""
A trained model as one file or folder that runs without this toolkit: frozen graph, SavedModel, TensorFlow Lite.

All begin with a frozen graph: variables are constants, and the size of the batch is that of the data. Inputs are the
data keys and, for lengths of sequences, `KEY:size1`, (batch,), in frames; outputs are `NAME` and `NAME:size1`. All
begin with the batch axis. Batches and sequences can be of any size, also in a search, whose loop is part of the graph.
Padding behind the longest sequence is cut. Lengths that several data keys share are one input.
Where a network keeps a state from batch to batch, each call starts from 0.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from returnn.config import Config
from returnn.config.preloaded_file import preloaded_files
from returnn.engine.model_formats import MODEL_FORMATS
from returnn.engine.run.model_files import ModelToLoad
from returnn.tf.engine.session.built_network import BuiltNetwork
from returnn.tf.engine.session.model_values import ModelValues, check_may_be_random
from returnn.tf.graph_export import ExportedGraph, GraphMode, build_graph
from returnn.tf.layers.loop.across_batches.kept_state import without_batches_before
from returnn.tf.tflite import to_tflite
from returnn.util.errors import ConfigError, UserError, check_known
from returnn.util.files.atomic_file import write_atomic

tf1 = tf.compat.v1

_BATCH_SIZE = "size of the batch"
_LENGTHS = re.compile(r"(.+), lengths of axis (\d+)")
_NATIVE = "RETURNN_NATIVE"


@dataclass(frozen=True)
class FrozenModel:
    """A graph without variables."""

    graph_def: Any
    inputs: Mapping[str, str]  # what it is -> name of the tensor
    outputs: Mapping[str, str]

    def __str__(self) -> str:
        lines = [f"input {name}: {tensor}" for name, tensor in self.inputs.items()]
        return "\n".join([*lines, *(f"output {name}: {tensor}" for name, tensor in self.outputs.items())])


def freeze(config: Config, checkpoint: str | None, mode: GraphMode, *, epoch: int = 1) -> FrozenModel:
    """
    Parameters get their values as in a run of a task: also those that come from other files.

    :param config: with the network
    :param checkpoint: name without suffix; None if all parameters come from `preload_from_files`
    :param mode: what the graph is for
    :param epoch: whose network
    :raises ConfigError: if the network is wrong, or no file has values for it
    :raises CheckpointError: if the checkpoint is of another network
    """
    with _without_kernels(), without_batches_before():
        exported = build_graph(config, mode, epoch=epoch)
    with exported.graph.as_default(), tf1.Session() as session:
        _load_as_in_a_run(config, exported, session, checkpoint, epoch=epoch)
        output_ops = [tensor.partition(":")[0] for tensor in exported.outputs.values()]
        graph_def = exported.graph.as_graph_def()
        with without_advice():
            constant = tf1.graph_util.convert_variables_to_constants(session, graph_def, output_ops)
    _check_parameters_are_used(exported, constant)
    return _with_own_batch_size(exported, constant)


def _load_as_in_a_run(
    config: Config, exported: ExportedGraph, session: tf.compat.v1.Session, checkpoint: str | None, *, epoch: int
) -> None:
    network = exported.network
    model = ModelToLoad(None if checkpoint is None else epoch, checkpoint)
    values = ModelValues(config, BuiltNetwork(network.layers_desc, epoch, network, None, None, exported.graph))
    files = preloaded_files(config.options.preload_from_files)
    if checkpoint is None:
        check_may_be_random(config, files)
    values.preload(files, model)
    values.initialize(session, model)
    if checkpoint is not None:
        values.load(session, checkpoint, goes_on=False)


def _check_parameters_are_used(exported: ExportedGraph, graph_def: Any) -> None:
    """:raises ConfigError: if the outputs are made of the inputs alone, as those of a decoder are without a search"""
    used = {node.name for node in graph_def.node}
    if not exported.params or any(name in used for name in exported.params):
        return
    outputs = ", ".join(repr(_short(name)) for name in exported.outputs if not _LENGTHS.fullmatch(name))
    raise ConfigError(
        f"no parameter of the network is needed for its outputs, {outputs}.\n"
        "  Without a search, the labels of a decoder are those of the target: '--search 1' exports the search."
    )


def _with_own_batch_size(exported: ExportedGraph, graph_def: Any) -> FrozenModel:
    """:return: where the size of the batch comes from the data, rather than from an input"""
    names = {node.name for node in graph_def.node}
    inputs = {name: x for name, x in exported.inputs.items() if x.partition(":")[0] in names}
    batch_size = inputs.pop(_BATCH_SIZE, None)
    lengths = [name for name in inputs if _LENGTHS.fullmatch(name)]
    source = next(iter([*lengths, *inputs]), None)
    if source is None:
        raise ConfigError("the network depends on no data, so there is nothing to put into it.")
    with tf.Graph().as_default() as graph:
        placeholders = {}
        for name, tensor in _each_once(inputs).items():
            old = exported.graph.get_tensor_by_name(tensor)
            placeholders[tensor] = tf1.placeholder(old.dtype, old.shape, name=_op_name(name))
        input_map: dict[str, Any] = _without_padding_behind_longest(placeholders, inputs)
        if batch_size is not None:
            input_map[batch_size] = tf.shape(placeholders[inputs[source]])[0]
        wanted = list(exported.outputs.values())
        found = tf1.import_graph_def(graph_def, input_map=input_map, return_elements=wanted, name="")
        outputs = {
            _short(name): tf.identity(x, name=f"outputs/{_op_name(name)}")
            for name, x in zip(exported.outputs, found, strict=True)
        }
        return FrozenModel(
            graph.as_graph_def(),
            {_short(name): placeholders[tensor].name for name, tensor in _each_once(inputs).items()},
            {name: x.name for name, x in outputs.items()},
        )


def _each_once(inputs: Mapping[str, str]) -> dict[str, str]:
    """
    Lengths of a dim that several data keys have are one tensor, which a SavedModel takes under one name alone.

    :return: without the other names; those of data that is an input itself are preferred
    """
    found: dict[str, str] = {}
    for name, tensor in sorted(inputs.items(), key=lambda item: _key_of(item[0]) not in inputs):
        found.setdefault(tensor, name)
    return {name: tensor for name, tensor in inputs.items() if found[tensor] == name}


def _key_of(name: str) -> str:
    """:return: the data key of data or of its lengths"""
    match = _LENGTHS.fullmatch(name)
    return match[1] if match else name


def _without_padding_behind_longest(placeholders: Mapping[str, Any], inputs: Mapping[str, str]) -> dict[str, Any]:
    """
    Whoever runs the model may have batches of fixed sizes, in which the longest sequence has padding, too.

    :param placeholders: by tensor of the graph
    :param inputs: tensors of the graph, by what they are
    :return: what the graph gets in place of each tensor
    """
    values = dict(placeholders)
    for name, lengths in inputs.items():
        match = _LENGTHS.fullmatch(name)
        data = inputs.get(match[1]) if match else None
        if match and data is not None:
            before = (slice(None),) * int(match[2])
            values[data] = values[data][(*before, slice(tf.reduce_max(placeholders[lengths])))]
    return values


def _short(name: str) -> str:
    """:return: "data:size1" for "data, lengths of axis 1" """
    match = _LENGTHS.fullmatch(name)
    return f"{match[1]}:size{match[2]}" if match else name


def _op_name(name: str) -> str:
    """:return: "data_size1" for "data, lengths of axis 1" """
    return re.sub(r"[^\w.]", "_", _short(name))


@contextlib.contextmanager
def _without_kernels() -> Iterator[None]:
    """Whoever runs the model has not our kernels."""
    before = os.environ.get(_NATIVE)
    os.environ[_NATIVE] = "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_NATIVE]
        else:
            os.environ[_NATIVE] = before


@contextlib.contextmanager
def without_advice() -> Iterator[None]:
    """Functions of graphs are deprecated in TensorFlow 2, of which a user of this toolkit need not hear."""
    logger = tf.get_logger()
    before = logger.level
    logger.setLevel("ERROR")
    try:
        yield
    finally:
        logger.setLevel(before)


def write_model(model: FrozenModel, path: str, kind: str) -> None:
    """
    :param model: from `freeze`
    :param path: of the new file or folder
    :param kind: one of `MODEL_FORMATS`
    :raises UserError: if it is there already, or cannot be written
    """
    check_known("format", kind, MODEL_FORMATS, where="option '--format'")
    if os.path.exists(path):
        raise UserError(f"{path!r} exists already.\n  Remove it, or choose another name.")
    _WRITE[kind](model, path)


def _write_frozen(model: FrozenModel, path: str) -> None:
    write_atomic(path, model.graph_def.SerializeToString())


def _write_tflite(model: FrozenModel, path: str) -> None:
    write_atomic(path, to_tflite(model.graph_def, model.inputs, model.outputs))


def _write_saved_model(model: FrozenModel, path: str) -> None:
    aside = f"{path}.{os.getpid()}.tmp"
    try:
        with _session(model) as (session, inputs, outputs), without_advice():
            tf1.saved_model.simple_save(session, aside, inputs, outputs)
        os.rename(aside, path)
    except (tf.errors.OpError, OSError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else exc.message.rpartition("; ")[2]
        raise UserError(f"cannot write the folder {path!r}: {reason}.") from exc
    finally:
        shutil.rmtree(aside, ignore_errors=True)


@contextlib.contextmanager
def _session(model: FrozenModel) -> Iterator[tuple[Any, dict[str, Any], dict[str, Any]]]:
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        tf1.import_graph_def(model.graph_def, name="")
        tensors = [
            {name: graph.get_tensor_by_name(x) for name, x in part.items()} for part in (model.inputs, model.outputs)
        ]
        yield session, *tensors


_WRITE: Mapping[str, Callable[[FrozenModel, str], None]] = {
    "frozen": _write_frozen,
    "saved_model": _write_saved_model,
    "tflite": _write_tflite,
}
