"""
In which searches sequences may leave the batch: where each sequence is computed for itself, and it is known that it is.

A rule that does not know something says no: then the batch stays as it is, which is never wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

from returnn.tensor import Dim
from returnn.tf.layers.core.step_state import ForAfterLoop
from returnn.tf.layers.loop.across_batches.kept_state import KeptInitial, is_word
from returnn.tf.layers.loop.history import NoFrames
from returnn.tf.layers.loop.loop_variables import LoopLayout, LoopVariables
from returnn.tf.layers.user_code.elementwise_code import is_elementwise

_CLASSES = frozenset({
    "activation", "cast", "choice", "combine", "compare", "concat", "constant", "copy", "cum_concat", "dot", "dropout",
    "eval", "expand_dims", "forward", "gather", "gating", "generic_attention", "get_last_hidden_state", "hidden",
    "layer_norm", "length", "linear", "merge_dims", "norm", "positional_encoding", "range_in_axis", "rec", "reduce",
    "reduce_out", "reinterpret_data", "relative_positional_encoding", "rnn_cell", "self_attention", "seq_len_mask",
    "slice", "softmax", "softmax_over_spatial", "split", "split_dims", "squeeze", "subnetwork", "switch", "top_k",
    "variable", "weighted_sum", "window",
})  # fmt: skip
_WORDS_FOR_BATCH = ("b", "batch", "bt", "tb", "b,t", "t,b")
_OPTIONS_FOR_AXES = ("axis", "axes", "red1", "red2", "reduce", "var1", "var2")
_DIMS_OF_RESULTS = ("out_shape", "shape")  # options that may name the batch: the result has it, too
# Options with which the hypotheses of a sequence depend on no other sequence.
_CHOICES_THAT_KEEP_ALL: dict[str, Any] = {"search": True, "cheating": False, "random_sample_scale": 0}
_OF_NO_SEQUENCE = ("Random", "Multinomial", "TruncatedNormal", "PyFunc", "Print")  # in names of operations


def why_batch_stays(layout: LoopLayout, variables: LoopVariables) -> str:
    """
    :param layout: dims of the variables of a loop
    :param variables: before the first frame
    :return: why sequences may not leave the batch before the loop ends; empty if they may
    """
    compiled = layout.compiled
    inputs, network = compiled.inputs, compiled.inputs.layer.network
    options = network.get_config().options
    checks: list[tuple[bool, str]] = [
        (variables.scores is None, "there is no search"),
        (variables.ended is None, "its length is known"),
        (not options.search_shrinks_batch, "option search_shrinks_batch"),
        (bool(options.search_depends_on_batch), "option search_depends_on_batch"),
        (inputs.back_prop, "there will be gradients"),
        (bool(options.tf_jit), "option tf_jit: each size of a batch would be compiled"),
        (inputs.debug, "option debug"),
        (network.step.innermost_frame() is not None, "there is a loop around"),
        (not tf.compat.v1.control_flow_v2_enabled(), "loops are no functions"),
    ]
    for is_so, reason in checks:
        if is_so:
            return reason
    num_hypotheses = layout.hypotheses[-1].size or 0
    return _reason_of_dims(layout) or _reason_of_states(layout) or reason_of_layers(inputs.unit, num_hypotheses)


def _reason_of_dims(layout: LoopLayout) -> str:
    inputs = layout.compiled.inputs
    batch, *beams = layout.hypotheses
    if not batch.is_batch_dim() or batch.size is not None or len(beams) != 1 or not beams[0].is_beam_dim():
        return f"hypotheses have {layout.hypotheses}"
    inferred = layout.compiled.inferred
    for path, edges in inferred.edges.items():
        layer = inferred.layers.get(path)
        if layer is None or layer.layer_class == "range_in_axis":  # which only asks for a size
            continue
        output = layer.output
        sources = [inferred.layers[edge.path].output for edge in edges if edge.path in inferred.layers]
        if batch not in output.dims and any(batch in x.dims for x in sources):
            return f"layer {inputs.prefix}{path} is about the whole batch"
    return ""


def _reason_of_states(layout: LoopLayout) -> str:
    inferred = layout.compiled.inferred
    for path in layout.compiled.plan.at("inside"):
        initial = [state.initial for state in inferred.states.get(path, {}).values()]
        concerns_others = any(
            isinstance(x, (KeptInitial, ForAfterLoop)) or (isinstance(x, NoFrames) and x.after_loop is not None)
            for x in initial
        )
        if concerns_others or is_word(inferred.layers[path]._initial_output):
            return f"the state of layer {layout.compiled.inputs.prefix}{path} is used after the loop"
    return ""


def reason_of_layers(unit: Mapping[str, Any], num_hypotheses: int) -> str:
    """
    :param unit: the layers of a time step, by name
    :param num_hypotheses: after a frame
    :return: why one of them may be about the whole batch; empty if none is
    """
    for name, desc in _descriptions_in(unit):
        reason = _reason_of_layer(desc) or _reason_of_choice(desc, num_hypotheses)
        if reason:
            return f"layer {name}: {reason}"
    return ""


def _descriptions_in(value: Any, name: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """:yield: name and options of each layer, also of those inside of others"""
    if isinstance(value, Mapping):
        if "class" in value and not isinstance(value["class"], Mapping):
            yield name, value
        for key, inner in value.items():
            yield from _descriptions_in(inner, str(key))


def _reason_of_layer(desc: Mapping[str, Any]) -> str:
    layer_class = desc["class"]
    if layer_class not in _CLASSES:
        return f"class {layer_class!r}"
    for option, value in desc.items():
        if option == "batch_norm" and value:
            return "option 'batch_norm'"
        if option == "eval" and not (isinstance(value, str) and is_elementwise(value)):
            return "option 'eval': it is not known whether this is elementwise"
        if _has_code(value):
            return f"option {option!r} is a function"
        if option not in _DIMS_OF_RESULTS and _names_batch(option, value):
            return f"option {option!r} is about the batch"
    return ""


def _reason_of_choice(desc: Mapping[str, Any], num_hypotheses: int) -> str:
    """:return: why hypotheses or their scores may change in frames after all of their sequence have ended"""
    if desc["class"] != "choice":
        return ""
    for option, default in _CHOICES_THAT_KEEP_ALL.items():
        if desc.get(option, default) not in (default, None):
            return f"option {option!r}"
    beam_size = desc.get("beam_size")
    # Where another choice of the step has fewer, some are lost in each frame.
    return "" if isinstance(beam_size, int) and beam_size >= num_hypotheses else f"option 'beam_size': {beam_size}"


def _has_code(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_code, value.values()))
    if isinstance(value, (list, tuple, set, frozenset)):
        return any(map(_has_code, value))
    return callable(value) and not isinstance(value, (Dim, type))


def _names_batch(option: str, value: Any) -> bool:
    """:return: whether the value of an option is, or has in it, the batch as an axis"""
    if isinstance(value, Dim):
        return value.is_batch_dim()
    if isinstance(value, Mapping):
        return any(_names_batch(option, x) for pair in value.items() for x in pair)
    is_axis = any(word in option for word in _OPTIONS_FOR_AXES)
    if isinstance(value, str):
        return is_axis and value.lower() in _WORDS_FOR_BATCH
    if isinstance(value, (list, tuple, set, frozenset)):
        return any(_names_batch(option, x) for x in value)
    return is_axis and isinstance(value, int) and not isinstance(value, bool) and value == 0


def reason_of_operations(graph: Any) -> str:
    """
    :param graph: of a frame
    :return: why one of its operations does not only concern the sequences: it draws numbers, or is code of the user
    """
    found = graph.as_graph_def()
    nodes = [*found.node, *(node for function in found.library.function for node in function.node_def)]
    names = (node.op for node in nodes if any(word in node.op for word in _OF_NO_SEQUENCE))
    return next((f"operation {name}" for name in names), "")
