"""
The graph of a network as a file, to be run by TensorFlow alone, without this toolkit.

Where it has native kernels, TensorFlow has to load their library first. With `RETURNN_NATIVE=0`, it has none.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.config import Config
from returnn.datasets.util.data_description import described_data
from returnn.engine.graph_formats import GRAPH_FORMATS
from returnn.engine.net_dicts import NetDicts
from returnn.engine.net_options import options_of_net
from returnn.engine.net_outputs import with_kept_layer
from returnn.engine.pretrain import pretrain_from_config
from returnn.log import log
from returnn.tensor import Tensor, batch_dim
from returnn.tf.engine.session.built_network import create_network
from returnn.tf.engine.session.graph_ops import ops_before
from returnn.tf.frontend_low_level.kernels.native import library_of
from returnn.tf.inspection.net_dict import has_search
from returnn.tf.layers.loop.step_graph import StepGraph, make_step_graph
from returnn.tf.layers.rec.loop_recurrence import LoopRecurrence
from returnn.tf.layers.structure.unavailable_data import DataNotAvailableLayer, TargetNotAvailable, require_available
from returnn.tf.network import ExternData, TFNetwork
from returnn.util.errors import ConfigError, check_known
from returnn.util.files.atomic_file import write_atomic
from returnn.util.texts.counted import counted

tf1 = tf.compat.v1

_CALLS_OF_PYTHON = ("PyFunc", "PyFuncStateless", "EagerPyFunc")
_NO_SEARCH = (
    "option '--search': the network has no search, such as a loop with the layer 'choice' and 'decide' behind it,\n"
    "  or 'ctc_decode' for CTC. Without '--search', its outputs are exported as they are."
)
_COLLECTIONS = tuple(
    getattr(tf1.GraphKeys, name)
    for name in (
        "GLOBAL_VARIABLES",
        "TRAINABLE_VARIABLES",
        "LOCAL_VARIABLES",
        "SUMMARIES",
        "WHILE_CONTEXT",
        "COND_CONTEXT",
    )
)


@dataclass(frozen=True)
class GraphMode:
    """What the graph is for."""

    train_flag: bool | None = False  # None: a placeholder decides
    eval_flag: bool = False
    search_flag: bool = False

    @property
    def has_losses(self) -> bool:
        """Whether losses are computed, which need targets."""
        return self.eval_flag or self.train_flag is not False


@dataclass(frozen=True)
class StepOf:
    """A loop of which one step is wanted."""

    layer: str
    counts_in_graph: bool  # whether the number of the step is a variable, rather than a placeholder


@dataclass
class ExportedGraph:
    """A graph, and the names of the tensors that somebody outside needs."""

    graph: tf.Graph
    network: TFNetwork
    inputs: dict[str, str] = field(default_factory=dict)  # what it is -> name of the tensor
    outputs: dict[str, str] = field(default_factory=dict)
    params: list[str] = field(default_factory=list)  # names of all variables that a checkpoint has
    step: StepGraph | None = None  # of a loop, if that is wanted

    @property
    def library(self) -> str | None:
        """File of the native kernels that the graph needs, if it does."""
        definition = self.graph.as_graph_def()
        nodes = [*definition.node, *(node for function in definition.library.function for node in function.node_def)]
        return library_of({node.op for node in nodes})

    def __str__(self) -> str:
        lines = [f"input {name}: {tensor}" for name, tensor in self.inputs.items()]
        lines += [f"output {name}: {tensor}" for name, tensor in self.outputs.items()]
        if self.step is not None:
            lines += [f"init {self.step.init_op}", f"step {self.step.step_op}", f"number of the step {self.step.i}"]
            lines += [f"state {name}: {variable}" for name, variable in self.step.state_vars.items()]
            lines += [f"output of the step {name}: {tensor}" for name, tensor in self.step.outputs.items()]
        if self.library:
            lines.append(f"kernels, to be loaded by tf.load_op_library before the graph: {self.library}")
        return "\n".join(
            [
                *lines,
                f"{counted(len(self.graph.get_operations()), 'operation')}, {counted(len(self.params), 'parameter')}",
            ]
        )


def build_graph(
    config: Config,
    mode: GraphMode,
    *,
    epoch: int = 1,
    device: str = "cpu",
    summaries_name: str | None = None,
    step_of: StepOf | None = None,
) -> ExportedGraph:
    """
    Without losses, the inputs are all data that the wanted outputs are computed from, whatever `extern_data` says by
    `available_for_inference`; with targets only where nothing can be computed without, as in a decoder outside of a
    search.

    :param config: with the network
    :param mode: what it is for
    :param epoch: whose network
    :param device: "cpu" or "gpu"
    :param summaries_name: of a tensor with all summaries, which is added
    :param step_of: a loop, of which one step is added
    :raises ConfigError: if the network is wrong
    """
    check_known("device", device, ("cpu", "gpu"), where="option 'device'")
    if config.opt_typed_value("search_depends_on_batch") is None:
        config.set("search_depends_on_batch", False)  # as for the task `search`
    options = {"epoch": epoch, "device": device, "summaries_name": summaries_name, "step_of": step_of}
    also: frozenset[str] = frozenset()
    while True:
        try:
            exported = _build_graph(config, mode, also=also, **options)
        except TargetNotAvailable as exc:
            missing = (exc.keys or frozenset(described_data(config))) - also
            if mode.has_losses or not missing:
                raise
            also |= missing
        else:
            if mode.search_flag:
                _warn_of_targets(exported, config, also)
            return exported


def _warn_of_targets(exported: ExportedGraph, config: Config, also: Collection[str]) -> None:
    """Says which inputs of a search are what it should find."""
    described = {key: desc for key, desc in described_data(config).items() if isinstance(desc, Mapping)}
    unknown = {key for key, desc in described.items() if desc.get("available_for_inference") is False}
    for key in sorted({exported.network.extern_data.default_target, *unknown}.intersection(also)):
        if not any(name == key or name.startswith(f"{key}, ") for name in exported.inputs):
            continue
        log.print_warning(
            f"the search needs {key!r}, which is a target: it is an input of the graph, though it is not known where"
            " the model is used.\n  Most often it only tells the search how long its result is. In place of that, give"
            " the loop 'max_seq_len' and a layer 'end'."
        )


def _build_graph(
    config: Config,
    mode: GraphMode,
    *,
    also: Collection[str],
    epoch: int,
    device: str,
    summaries_name: str | None,
    step_of: StepOf | None,
) -> ExportedGraph:
    net_dict = _net_dict(config, mode, epoch=epoch)
    graph = tf.Graph()
    with options_of_net(config, net_dict), graph.as_default(), tf.device(f"/device:{device.upper()}:0"):
        batch_dim.reset_raw()
        tf1.set_random_seed(config.options.random_seed)
        train_flag = mode.train_flag
        if train_flag is None:
            train_flag = tf1.placeholder_with_default(tf.constant(False), (), name="train_flag")
        network, updater = create_network(
            config,
            rnd_seed=config.options.random_seed,
            train_flag=train_flag,
            eval_flag=mode.eval_flag,
            search_flag=mode.search_flag,
            net_dict=net_dict,
            extern_data=_extern_data(config, with_targets=mode.has_losses, also=also),
            initial_learning_rate=config.options.learning_rate,
        )
        exported = ExportedGraph(graph, network)
        exported.params += [variable.name.split(":")[0] for variable in network.get_saveable_params_list()]
        _add_outputs(exported, mode, wanted=_wanted_layers(config, mode))
        if mode.search_flag and not has_search(net_dict) and network.beams.is_empty:
            raise ConfigError(_NO_SEARCH)
        if updater is not None:
            exported.outputs["update of the parameters"] = updater.get_optim_op().name
        if summaries_name:
            exported.outputs["summaries"] = _all_summaries(summaries_name).name
        if step_of is not None:
            exported.step = _make_step(network, step_of)
        _add_inputs(exported)
    return exported


def _all_summaries(name: str) -> tf.Tensor:
    """:return: a string, of the protocol buffer `Summary`; where the network makes none, an empty one"""
    merged = tf1.summary.merge_all(name=name)
    return tf.constant(b"", name=name) if merged is None else merged


def _make_step(network: TFNetwork, step_of: StepOf) -> StepGraph:
    layer = network.get_layer(step_of.layer)
    recurrence = getattr(layer, "recurrence", None)
    if not isinstance(recurrence, LoopRecurrence):
        raise ConfigError(f"layer {step_of.layer!r}: is no loop over layers of its own, so there are no steps.")
    assert recurrence.compiled is not None
    assert recurrence.emitted is not None
    with rf.backend_ctx("tf"):
        return make_step_graph(recurrence.compiled, recurrence.emitted.before, counts_in_graph=step_of.counts_in_graph)


def write_graph(exported: ExportedGraph, filename: str) -> None:
    """
    Native kernels that the graph needs are copied beside it, into a file with the suffix ".kernels.so".

    :param exported: from `build_graph`
    :param filename: the suffix is one of `GRAPH_FORMATS`
    :raises ConfigError: if it is another one
    """
    suffix = os.path.splitext(filename)[1]
    if suffix not in GRAPH_FORMATS:
        possible = ", ".join(f"{name} ({what})" for name, what in GRAPH_FORMATS.items())
        raise ConfigError(f"graph file {filename!r}: unknown suffix {suffix!r}.\n  Possible: {possible}.")
    with exported.graph.as_default():
        is_meta = suffix.startswith(".meta")
        known = [key for key in exported.graph.get_all_collection_keys() if key in _COLLECTIONS]
        proto = (
            tf1.train.export_meta_graph(collection_list=known)
            if is_meta
            else exported.graph.as_graph_def(add_shapes=True)
        )
    write_atomic(filename, str(proto) if suffix.endswith("txt") else proto.SerializeToString())
    if exported.library:
        write_atomic(f"{filename}.kernels.so", Path(exported.library).read_bytes())


def _extern_data(config: Config, *, with_targets: bool, also: Collection[str]) -> ExternData:
    extern_data = ExternData()
    extern_data.init_from_config(config)
    extern_data.create_placeholders(with_targets=with_targets, also=also)
    return extern_data


def _net_dict(config: Config, mode: GraphMode, *, epoch: int) -> dict[str, Any]:
    net_dict = NetDicts(config, pretrain_from_config(config)).of_epoch(epoch)
    for name in _wanted_layers(config, mode):
        net_dict = with_kept_layer(net_dict, name.split("/"), where=f"option {_output_option(mode)!r}")
    return net_dict


def _wanted_layers(config: Config, mode: GraphMode) -> list[str]:
    """:return: what the config names; nothing, if it names nothing"""
    names = config.opt_typed_value(_output_option(mode), None) or []
    return [names] if isinstance(names, str) else list(names)


def _output_option(mode: GraphMode) -> str:
    return "search_output_layer" if mode.search_flag else "forward_output_layer"


def _add_inputs(exported: ExportedGraph) -> None:
    """All data that some output depends on."""
    step = exported.step
    names = [*exported.outputs.values(), *(() if step is None else (step.init_op, *step.outputs.values()))]
    batch_size = batch_dim.dyn_size
    given = () if batch_size is None else (batch_size.op,)
    needed = ops_before([exported.graph.as_graph_element(name) for name in names], given=given)
    _check_needs_no_python(exported.graph, needed)
    for key, data in exported.network.extern_data.get_sorted_data_items():
        names = {} if data.raw_tensor is None else {key: data.raw_tensor.name, **_lengths(key, data)}
        tensors = {what: exported.graph.get_tensor_by_name(name) for what, name in names.items()}
        exported.inputs.update({what: tensor.name for what, tensor in tensors.items() if tensor.op in needed})
    if batch_size is not None:
        exported.inputs["size of the batch"] = batch_size.name


def _check_needs_no_python(graph: tf.Graph, needed: Collection[tf.Operation]) -> None:
    """:raises ConfigError: if an operation calls a Python function, which no graph file can have"""
    functions = {function.signature.name: function.node_def for function in graph.as_graph_def().library.function}
    todo = [(op.node_def, op.name) for op in needed]
    while todo:
        node, name = todo.pop()
        if node.op in _CALLS_OF_PYTHON:
            raise ConfigError(
                f"operation {name!r}: calls a Python function, so that the graph cannot be exported.\n"
                "  What asks Python: language models of KenLM, lexicons, BLEU, RASR, tf.numpy_function in a config."
            )
        called = [value.func.name for value in node.attr.values() if value.HasField("func")]
        todo += [(inner, f"{name}/{inner.name}") for function in called for inner in functions.pop(function, ())]


def _add_outputs(exported: ExportedGraph, mode: GraphMode, *, wanted: Sequence[str]) -> None:
    network = exported.network
    for name in wanted:
        require_available(network.get_layer(name))
    if not wanted and network.get_default_output_layer(must_exist=False) is not None:
        require_available(network.get_default_output_layer())
    for layer in network.get_output_layers():
        if isinstance(layer, DataNotAvailableLayer):
            continue
        output, raw = layer.output, layer.output.raw_tensor
        if output.have_batch_axis():
            output = output.copy_as_batch_major()
            name = f"{layer.get_absolute_name_scope_prefix()}output_batch_major"  # decoders outside know it
            raw = tf.identity(output.raw_tensor, name=name)
        exported.outputs[layer.name] = raw.name
        exported.outputs.update(_lengths(layer.name, output))
    if mode.has_losses:
        losses, _, _ = network.get_losses_initialized()
        for name, loss in losses.items():
            for kind, value in (("loss", loss.get_loss_value()), ("error", loss.get_error_value())):
                if value is not None:
                    exported.outputs[f"{kind} {name}"] = value.name


def _lengths(name: str, data: Tensor) -> dict[str, str]:
    return {
        f"{name}, lengths of axis {axis}": dim.dyn_size.name
        for axis, dim in enumerate(data.dims)
        if dim.size is None and not dim.is_batch_dim() and dim.dyn_size is not None
    }
