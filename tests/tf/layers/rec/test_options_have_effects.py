"""
Each option of the layers of loops and search, and of the units, changes the graph when it gets another value.

`tests/tf/layers/test_options_are_read.py` looks at the source of all layers; here, graphs are compared.
"""

from collections import Counter

import pytest
import tensorflow as tf

from returnn.config import Config
from returnn.tensor import batch_dim
from returnn.tf.layers.options.layer_options import options_of
from returnn.tf.layers.options.registry import get_layer_class, get_layer_class_name_list
from returnn.tf.layers.rec.units.registry import get_unit_class, unit_names
from returnn.tf.network import TFNetwork
from returnn.tf.util.data import FeatureDim, SpatialDim
from returnn.util.errors import ConfigError

TIME, SOURCE, KEYS = (SpatialDim(name) for name in ("time", "source", "keys"))
STATIC = SpatialDim("static", 3)
IN, KEY, OTHER_IN = FeatureDim("in", 4), FeatureDim("key", 4), FeatureDim("other in", 3)
EXTERN_DATA = {
    "data": {"dim_tags": [batch_dim, TIME, IN]},
    "source": {"dim_tags": [batch_dim, SOURCE, IN]},
    "frames": {"dim_tags": [batch_dim, TIME, STATIC, IN]},
    "vec": {"dim_tags": [batch_dim, IN]},
    "pair": {"dim_tags": [batch_dim, TIME, OTHER_IN, IN]},
    "position": {"dim_tags": [batch_dim], "dtype": "int32"},
    "classes": {"dim_tags": [batch_dim, TIME], "sparse_dim": FeatureDim("labels", 5)},
    "table": {"dim_tags": [batch_dim, TIME, STATIC], "sparse_dim": FeatureDim("labels", 5)},
    "others": {"dim_tags": [batch_dim, SOURCE], "sparse_dim": FeatureDim("others", 5)},
}
CELL_OPTIONS = {"name": "cell", "trainable": False, "activation": "relu"}
LSTM_OPTIONS = {
    **CELL_OPTIONS, "use_peepholes": True, "cell_clip": 0.5, "num_proj": 4, "initializer": "zeros", "forget_bias": 0.5,
    "proj_clip": (0.5, {"num_proj": 4}),
}  # fmt: skip
ONLY_DEFAULT = {"reuse", "dtype", "dynamic", "state_is_tuple", "num_unit_shards", "num_proj_shards"}  # an error


def one(name, **given):
    """:return: function that makes a net dict of one layer with options"""
    return lambda **options: {"output": {"class": name, "from": "data", **given, **options}}


def with_source(source, name, **given):
    return lambda **options: {
        "x": {"from": "data", **source},
        "output": {"class": name, "from": "x", **given, **options},
    }


def in_loop(name, **given):
    """:return: the same for a layer in a loop, which depends on the step before"""

    def make(**options):
        x = {"class": "linear", "activation": "tanh", "from": ["data:source", "prev:x"], "n_out": 4}
        unit = {"x": x, "output": {"class": name, "from": "x", **given, **options}}
        return {"output": {"class": "rec", "from": "data", "unit": unit}}

    return make


def ended_loop(**options):
    unit = {
        "output": {"class": "linear", "activation": "tanh", "from": ["prev:output", "base:data:vec"], "n_out": 4},
        "sum": {"class": "reduce", "mode": "sum", "axis": "F", "from": "output"},
        "end": {"class": "compare", "kind": "greater", "value": 1.0, "from": "sum"},
    }
    return {
        "length": {"class": "length", "from": "data"},
        "output": {"class": "rec", "from": [], "max_seq_len": 4, "unit": unit, **options},
    }


def loop(**options):
    unit = {
        "x": {"class": "linear", "from": "data:source", "activation": None, "n_out": 4},
        "output": {"class": "linear", "activation": "tanh", "from": ["x", "prev:output"], "n_out": 4},
    }
    return {"output": {"class": "rec", "from": "frames", "unit": unit, **options},
            "frames": {"class": "copy", "from": "data:frames"}}  # fmt: skip


def choice(**options):
    """:return: net dict: a search with two choices in a step, the second one with the options"""
    make = {"class": "choice", "target": "classes", "initial_output": 0, "beam_size": 3}
    unit = {
        "s": {"class": "linear", "activation": "tanh", "n_out": 4, "from": ["prev:s", "base:data:vec"]},
        "p": {"class": "softmax", "n_out": 5, "from": "s"},
        "first": {**make, "from": "p"},
        "t": {"class": "linear", "activation": "tanh", "n_out": 4, "from": "first"},
        "q": {"class": "softmax", "n_out": 5, "from": ["s", "t"]},
        "output": {**make, "from": "q", **options},
        "end": {"class": "compare", "value": 0, "from": "output"},
    }
    return {"output": {"class": "rec", "from": [], "max_seq_len": 4, "unit": unit}}


def after_search(name):
    def make(**options):
        return {**choice(), "last": {"class": name, "from": "output", "is_output_layer": True, **options}}

    return make


def masked(**options):
    return {
        "mask": {"class": "compare", "kind": "not_equal", "value": 0, "from": "data:classes"},
        "known": {"class": "slice", "slice_start": 1, "axis": "T", "from": "data"},
        "output": {"class": "masked_computation", "mask": "mask", "from": "data",
                   "unit": {"class": "linear", "from": "data", "n_out": 4}, **options},
    }  # fmt: skip


def attended(**options):
    energy = {"class": "linear", "activation": None, "n_out": 1, "from": "data"}
    weights = {"class": "softmax_over_spatial", "from": "energy"}
    return {"energy": energy, "weights": weights,
            "output": {"class": "generic_attention", "base": "data", "weights": "weights", **options}}  # fmt: skip


def unstacked(**options):
    unit = {
        "x": {"class": "rec_unstack", "from": "base:data", **options},
        "output": {"class": "linear", "activation": "tanh", "from": ["x", "prev:output"], "n_out": 4},
    }
    return {"output": {"class": "rec", "from": [], "axis": TIME, "unit": unit}}


def combined(scores_in, scores_base, **_options):
    return scores_in * 2 + scores_base


TABLE = {"class": "edit_distance_table", "from": "data:classes", "target": "others"}
ENCODING = {"class": "relative_positional_encoding", "n_out": 2}
LSTM = {"class": "rec", "n_out": 4}

# Class; what makes a net dict with options of it; option -> value that it gets, or that with others given in both nets.
CASES = [
    ("rec", one("rec", n_out=4), {
        "unit": "gru", "unit_opts": {"forget_bias": 1.0}, "direction": -1, "input_projection": (False, {"n_out": 1}),
        "forward_weights_init": "zeros", "recurrent_weights_init": "zeros", "bias_init": 1.0, "unroll": (True, {
            "from": "data:frames", "axis": STATIC, "unit": "gru", "max_seq_len": 3}),
        "axis": (STATIC, {"from": "data:frames"}), "in_dim": (OTHER_IN, {"from": "data:pair"}),
        "initial_state": "ones", "state": ("data:vec", {"from": "data:vec", "unit": "gru"}),
        "out_dim": FeatureDim("y", 4),
    }),
    ("rec", loop, {
        "optimize_move_layers_out": False, "debug": True, "cheating": True, "use_global_rec_step_offset": True,
    }),
    ("rec", ended_loop, {"max_seq_len": 3, "max_seq_len_via": "length", "include_eos": True}),
    ("rnn_cell", one("rnn_cell", unit="lstm", n_out=4), {
        "unit_opts": {"forget_bias": 0.0}, "weights_init": "zeros", "initial_state": "ones",
        "state": ("data:vec", {"from": "data:vec", "unit": "gru"}), "initial_output": 0,
    }),
    ("choice", choice, {
        "search": False, "add_to_beam_scores": (False, {"search": False}), "input_type": "logits", "prob_scale": 0.5,
        "base_beam_score_scale": 0.5, "random_sample_scale": 0.5, "length_normalization": False,
        "length_normalization_exponent": 0.5, "keep_beams": True, "cheating": True, "custom_score_combine": combined,
        "source_beam_sizes": ([1, 2], {"from": ["q", "p"], "target": ["classes", "others"]}),
        "scheduled_sampling": (True, {"search": False, "add_to_beam_scores": False}),
        "explicit_search_sources": (["t"], {"from": "p"}),
    }),
    ("decide", after_search("decide"), {"length_normalization": True}),
    ("split_batch_beam", after_search("split_batch_beam"), {"beam_dim": SpatialDim("beam", 3)}),
    ("get_last_hidden_state", with_source(LSTM, "get_last_hidden_state"), {
        "key": "c", "combine": ("add", {"from": ["x", "x"], "key": "c"}), "n_out": 7, "out_dim": FeatureDim("y", 8),
    }),
    ("self_attention", one("self_attention", num_heads=2, total_key_dim=4, n_out=4), {
        "forward_weights_init": "zeros", "attention_dropout": 0.5,
        "attention_left_only": True,
    }),
    ("self_attention", in_loop("self_attention", num_heads=2, total_key_dim=4, n_out=4, attention_left_only=True), {
        "state_var_lengths": lambda: tf.constant([1, 1]), "initial_state": "keep_over_epoch",
        "restrict_state_to_last_seq": True,
    }),
    ("self_attention", with_source(ENCODING, "self_attention", num_heads=2, total_key_dim=4, n_out=4), {
        "key_shift": ("x", {"from": "data"}),
    }),
    ("positional_encoding", one("positional_encoding", n_out=4), {
        "axis": (STATIC, {"from": "data:frames"}), "add_to_input": True, "constant": 3, "offset": "data:position",
    }),
    ("relative_positional_encoding", one("relative_positional_encoding", n_out=4), {
        "n_out": 3, "out_dim": KEY, "clipping": 3, "fixed": True, "forward_weights_init": "zeros", "query_offset": 2,
        "query_spatial_dim": STATIC, "key_value_spatial_dim": (STATIC, {"query_spatial_dim": TIME}),
    }),
    ("masked_computation", masked, {
        "masked_from": "known",
        "in_spatial_dim": "B", "out_spatial_dim": SpatialDim("masked"),
    }),
    ("gauss_window_attention", one("gauss_window_attention", base="data", window_size=3, **{"from": "data:vec"}), {
        "std": 0.5, "inner_size": 3, "inner_size_step": (0.25, {"inner_size": 3}),
    }),
    ("dot_attention", one("dot_attention", base="data", base_ctx="data", **{"from": "data:vec"}), {
        "energy_factor": 0.5,
    }),
    ("edit_distance_table", one("edit_distance_table", target="others", **{"from": "data:classes"}), {
        "axis": (STATIC, {"from": "data:table"}), "blank_idx": 1, "debug": True, "out_dim": SpatialDim("rows", 1),
    }),
    ("optimal_completions", with_source({**TABLE}, "optimal_completions", target="others"), {
        "blank_idx": 1, "debug": True,
    }),
    ("edit_distance", one("edit_distance", a="data:table", b="data:table", **{"from": []}), {
        "a_spatial_dim": STATIC, "b_spatial_dim": STATIC,
    }),
    ("generic_attention", attended, {"auto_squeeze": False}),
    ("cum_concat", in_loop("cum_concat", out_spatial_dim=KEYS), {"axis": TIME}),
    ("rec_unstack", unstacked, {"axis": "F", "declare_rec_time": True}),
    ("twod_lstm", one("twod_lstm", n_out=4, **{"from": ["data:source", "data"]}), {
        "pooling": "max", "unit_opts": {"x": 1}, "forward_weights_init": "zeros", "recurrent_weights_init": "zeros",
        "bias_init": 1.0,
    }),
]  # fmt: skip
UNIT_OPTIONS = {
    "basiclstm": {**CELL_OPTIONS, "forget_bias": 0.5},
    "basicrnn": CELL_OPTIONS,
    "gru": {**CELL_OPTIONS, "kernel_initializer": "zeros", "bias_initializer": "zeros"},
    "standardlstm": LSTM_OPTIONS,
    "layernormvariantslstm": {
        "norm_gain": 0.5, "norm_shift": 0.5, "forget_bias": 0.5, "activation": tf.nn.relu, "dropout": 0.5,
        "is_training": (False, {"dropout": 0.5}), "dropout_h": 0.5, "dropout_seed": (3, {"dropout": 0.5}),
        "with_concat": (True, {"global_norm": False}), "global_norm": False,
        "global_norm_joined": (True, {"global_norm": False}), "per_gate_norm": (True, {"global_norm": False}),
        "cell_norm": False, "cell_norm_in_output": False, "hidden_norm": True, "variance_epsilon": 0.1,
    },
    "blocksparselstm": {
        "forget_bias": 0.5, "block_size": (2, {"connectivity": 1}), "connectivity": (1, {"block_size": 2}),
        "seed": (3, {"block_size": 2, "connectivity": 1}), "trainable": False,
    },
    "nativelstm": {"forget_bias": 0.5},
    "nativelstm2": {
        "forget_bias": 0.5, "rec_weight_dropout": 0.5,
        "rec_weight_dropout_shape": ((1, 16), {"rec_weight_dropout": 0.5}),
    },
    "rhn": {
        "depth": 2, "dropout": 0.5, "is_training": (False, {"dropout": 0.5}), "dropout_seed": (3, {"dropout": 0.5}),
        "transform_bias": -1.0, "batch_size": (2, {"dropout": 0.5}),
    },
    "zoneoutlstm": {
        "zoneout_factor_cell": 0.5, "zoneout_factor_output": 0.5,
        "use_zoneout_output": (False, {"zoneout_factor_output": 0.5, "use_zoneout_output": True}),
    },
}  # fmt: skip
MAKE_UNIT = {unit: one("rec", unit=unit, n_out=4) for unit in UNIT_OPTIONS}
NO_EFFECT = {  # why there is none
    ("rec", "cheating"): "documented as not used any more",
    ("rec_unstack", "declare_rec_time"): "without it, the loop needs another way to know its length, which it has here",
    ("cum_concat", "axis"): "only the loop is possible",
}
ELSEWHERE = {  # not about the graph as such, or not alone
    ("rec", "back_prop"): "test_loop_options.py",
    ("rec", "initial_output"): "test_units_in_loops.py",
    **{("ctc_decode", option): "test_ctc_decode.py" for option in options_of(get_layer_class("ctc_decode"))},
    **{("kenlm", option): "test_ken_lm.py" for option in options_of(get_layer_class("kenlm"))},
}
OF_CHOICES = {"beam_size", "search", "add_to_beam_scores"}  # other layers have them as well, but do not choose


def cases():
    for name, make, options in CASES:
        for option, value in options.items():
            value, others = value if isinstance(value, tuple) else (value, {})
            yield pytest.param(name, make, option, value, others, id=f"{name}-{option}")


def unit_cases():
    for unit, options in UNIT_OPTIONS.items():
        for option, value in options.items():
            value, others = value if isinstance(value, tuple) else (value, {})
            yield pytest.param(unit, option, value, others, id=f"{unit}-{option}")


@pytest.mark.parametrize(("name", "make", "option", "value", "others"), list(cases()))
def test_an_option_of_a_layer_changes_the_graph(name, make, option, value, others):
    changed = graph_or_error(make(**others, **{option: value}))
    if isinstance(changed, str):
        assert repr(option) in changed
    else:
        assert (unchanged(make, others) == changed) == ((name, option) in NO_EFFECT)


@pytest.mark.parametrize(("unit", "option", "value", "others"), list(unit_cases()))
def test_an_option_of_a_unit_changes_the_graph(unit, option, value, others):
    changed = graph_or_error(MAKE_UNIT[unit](unit_opts={**others, option: value}))
    assert not isinstance(changed, str), changed
    assert changed != unchanged(MAKE_UNIT[unit], {"unit_opts": others})


def test_all_options_are_looked_at():
    seen = {(name, option) for name, _, options in CASES for option in options} | set(ELSEWHERE)
    for name in get_layer_class_name_list():
        for option in own_options(get_layer_class(name)):
            assert (name, option) in seen or name == ":i" or option in OF_CHOICES, (name, option)
    for unit in unit_names():
        known = {get_unit_class(name): options for name, options in UNIT_OPTIONS.items()}
        options = set(options_of(get_unit_class(unit))) - {"self", "num_units"} - ONLY_DEFAULT
        assert options == set(known.get(get_unit_class(unit), ())), unit


def own_options(cls):
    """:return: options that the classes for loops declare, and which one need not give"""
    for name, option in options_of(cls).items():
        is_own = option.init.__module__.startswith("returnn.tf.layers.rec.")
        if is_own and not option.is_required and name[0] != "_" and name != "self":
            yield name


KNOWN = {}


def unchanged(make, options):
    """:return: like `graph_or_error`, made once"""
    key = (make, repr(options))
    if key not in KNOWN:
        KNOWN[key] = graph_or_error(make(**options))
    assert not isinstance(KNOWN[key], str), KNOWN[key]
    return KNOWN[key]


def graph_or_error(net_dict):
    """:return: what a network in search and training consists of; or the error"""
    options = {"extern_data": EXTERN_DATA, "network": net_dict, "behavior_version": 21}
    with tf.Graph().as_default() as graph:
        try:
            net = TFNetwork(config=Config(options), train_flag=True, search_flag=True, eval_flag=True)
            net.construct_from_dict(net_dict)
        except ConfigError as exc:
            return str(exc)
        params = sorted((param.name, param.trainable) for param in net.get_params_list())
        outputs = [str(layer.output) for layer in net.layers.values()]
        return params, outputs, nodes_of(graph.as_graph_def())


def nodes_of(definition):
    """:return: how often there is which operation, with which inputs, of which inputs"""
    found = Counter()
    for nodes in (definition.node, *(function.node_def for function in definition.library.function)):
        kinds = {node.name: hash((node.op, *attributes_of(node))) for node in nodes}
        for _ in range(3):
            kinds = {node.name: hash((kinds[node.name], *map(kinds.get, names_of_inputs(node)))) for node in nodes}
        found.update(kinds.values())
    return found


def names_of_inputs(node):
    return [name.lstrip("^").partition(":")[0] for name in node.input]


def attributes_of(node):
    """:return: values of the attributes which count: no names of functions, nothing that follows from the inputs"""
    counting = sorted(node.attr) if node.op.startswith("Returnn") else ("value", "seed", "seed2", "axis")
    return [str(node.attr[name]) for name in counting if name in node.attr]
