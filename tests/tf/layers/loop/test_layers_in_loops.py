"""
For every layer class: inside of a loop, frame by frame, it is the same as moved out, for all frames at once.

Layers which change dims have more cases in `tests/tf/layers/test_shape_layers_in_loops.py`.
"""

import functools

import numpy
import pytest

from returnn.config import Config
from returnn.tensor import Dim, batch_dim
from returnn.tf.layers.options.registry import get_layer_class, get_layer_class_name_list
from returnn.tf.network import TFNetwork
from returnn.util.behavior_version import BehaviorVersion
from tests.tf.layers.rec.recurrent_net import drawn, tf, tf1

X = "data:source"
PAST, CHOSEN = Dim(None, name="past"), Dim(4, name="chosen")


def one(layer_class, sources=X, **options):
    return {"class": layer_class, "from": sources, **options}


def mask(name):
    """:return: layers for a bool of each frame"""
    return {"mean": one("reduce", mode="mean", axis="F"), name: one("compare", "mean", kind="greater", value=0)}


# By layer class: the layers of a time step. "x" is the one to look at. The source has 6 features; "base:other" is a
# sequence with a time dim of its own, and "base:vec" has 6 features.
STEPS = {
    ":i": {"i": one("cast", ":i", dtype="float32"), "x": one("combine", ["i", X], kind="mul")},
    "activation": {"x": one("activation", activation="tanh")},
    "alternating_real_to_complex": {
        "c": one("alternating_real_to_complex"), "x": one("complex_to_alternating_real", "c"),
    },
    "cast": {"i": one("cast", dtype="int32"), "x": one("cast", "i", dtype="float32")},
    "choice": {"c": one("choice", [], target="ids", beam_size=3), "x": one("linear", "c", n_out=3, activation=None)},
    "combine": {"x": one("combine", [X, "base:vec"], kind="mul")},
    "compare": {"c": one("compare", [X, "base:vec"], kind="less"), "x": one("switch", [], condition="c", true_from=X,
                                                                          false_from="base:vec")},
    "complex_linear_projection": {"x": one("complex_linear_projection", nr_of_filters=4)},
    "concat": {"x": one("concat", [(X, "F"), ("base:vec", "F")], allow_broadcast=True)},
    "concat_attention": {"q": one("linear", n_out=6, activation=None),
                         "x": one("concat_attention", "q", base="base:other", base_ctx="base:other")},
    "constant": {"c": one("constant", [], value=2.0), "x": one("combine", ["c", X], kind="mul")},
    "copy": {"x": one("copy", [X, "base:vec"])},
    "cum_concat": {
        "past": one("cum_concat", out_spatial_dim=PAST),
        "e": one("dot", [X, "past"], red1="F", red2="F", var1="auto", var2="auto"),
        "w": one("softmax_over_spatial", "e", axis=PAST), "x": one("dot", ["w", "past"], reduce=PAST),
    },
    "cumsum": {"x": one("cumsum")},
    "dct": {"x": one("dct", norm="ortho")},
    "dot": {"x": one("dot", [X, "base:other"], reduce="F", var1="auto", var2="auto")},
    "dot_attention": {"x": one("dot_attention", base="base:other", base_ctx="base:other", energy_factor=0.5)},
    "dropout": {"x": one("dropout", dropout=0.5)},
    "edit_distance_table": {
        "c": one("choice", [], target="ids", beam_size=3),
        "t": one("edit_distance_table", "c", target="layer:base:labels"), "x": one("cast", "t", dtype="float32"),
    },
    "elemwise_prod": {"x": one("elemwise_prod", axes="F")},
    "eval": {"x": one("eval", [X, "base:vec"], eval="tf.sin(source(0)) * source(1)")},
    "expand_dims": {"x": one("expand_dims", axis="F", dim=CHOSEN)},
    "fill_unused": {"x": one("fill_unused", fill_value=3.0)},
    "gating": {"x": one("gating", activation="tanh")},
    "gauss_window_attention": {
        "p": one("reduce", mode="mean", axis="F"),
        "x": one("gauss_window_attention", "p", base="base:other", window_size=3),
    },
    "generic_attention": {
        "e": one("dot", [X, "base:other"], reduce="F", var1="auto", var2="auto"),
        "w": one("softmax_over_spatial", "e"),
        "x": one("generic_attention", [], weights="w", base="base:other"),
    },
    "get_last_hidden_state": {
        "s": one("rnn_cell", unit="lstmblock", n_out=4), "x": one("get_last_hidden_state", "s", key="c", n_out=4),
    },
    "gather": {"g": one("gather", position=2, axis="F"), "x": one("combine", ["g", X], kind="mul")},
    "hidden": {"x": one("hidden", n_out=3, activation="tanh")},
    "identity": {"x": one("identity")},
    "layer_norm": {"x": one("layer_norm")},
    "length": {"n": one("length", "base:other", dtype="float32"), "x": one("combine", ["n", X], kind="mul")},
    "linear": {"x": one("linear", n_out=3, activation="tanh")},
    "masked_computation": {
        **mask("m"),
        "x_masked": one("masked_computation", mask="m", unit=one("rnn_cell", "data", unit="gru", n_out=4)),
        "x": one("unmask", "x_masked", mask="m"),
    },
    "math_norm": {"n": one("math_norm", p=3, axis="F"), "x": one("combine", ["n", X], kind="mul")},
    "mel_filterbank": {"x": one("mel_filterbank", sampling_rate=8000, fft_size=10, nr_of_filters=3)},
    "merge_dims": {"s": one("split_dims", axis="F", dims=(2, 3)), "x": one("merge_dims", "s", axes=["dim:2", "dim:3"])},
    "norm": {"x": one("norm", axis="F")},
    "optimal_completions": {
        "c": one("choice", [], target="ids", beam_size=3),
        "t": one("edit_distance_table", "c", target="layer:base:labels"),
        "o": one("optimal_completions", "prev:t", target="layer:base:labels"), "x": one("cast", "o", dtype="float32"),
    },
    "pad": {"x": one("pad", axes="F", padding=(1, 2))},
    "positional_encoding": {"x": one("positional_encoding", add_to_input=True)},
    "rec": {"x": one("rec", unit="nativelstm2", n_out=4)},
    "rec_unstack": {"x": one("rec_unstack", "base:data")},
    "reduce": {"r": one("reduce", mode="max", axis="F"), "x": one("combine", ["r", X], kind="mul")},
    "reduce_out": {"x": one("reduce_out", mode="max", num_pieces=3)},
    "reinterpret_data": {"x": one("reinterpret_data", set_dim_tags={})},
    "relative_positional_encoding": {
        "shift": one("relative_positional_encoding", n_out=2, clipping=2),
        "x": one("self_attention", num_heads=2, total_key_dim=4, n_out=4, attention_left_only=True, key_shift="shift"),
    },
    "rnn_cell": {"x": one("rnn_cell", unit="lstmblock", n_out=4)},
    "scaled_grad": {"x": one("scaled_grad", scale=-1.0)},
    "self_attention": {"x": one("self_attention", num_heads=2, total_key_dim=4, n_out=4, attention_left_only=True)},
    "slice": {"x": one("slice", axis="F", slice_start=1, slice_end=-1)},
    "softmax": {"x": one("softmax", n_out=4)},
    "softmax_over_spatial": {"x": one("softmax_over_spatial", axis="F")},
    "split": {"s": one("split", size_splits=[1, 5]), "x": one("copy", "s/1")},
    "split_dims": {"x": one("split_dims", axis="F", dims=(2, -1))},
    "squeeze": {"e": one("expand_dims", axis="F", dim=1), "x": one("squeeze", "e", axis="auto")},
    "stack": {"x": one("stack", [X, "base:vec"])},
    "subnetwork": {"x": one("subnetwork", [X, "base:vec"], subnetwork={
        "a": {"class": "linear", "activation": "tanh", "n_out": 3, "from": "data"},
        "output": {"class": "rnn_cell", "unit": "gru", "n_out": 4, "from": "a"},
    })},
    "swap_axes": {"s": one("split_dims", axis="F", dims=(2, 3)),
                  "x": one("swap_axes", "s", axis1="dim:2", axis2="dim:3")},
    "switch": {**mask("c"),
               "x": one("switch", [], condition="c", true_from=X, false_from="base:vec")},
    "tile": {"x": one("tile", multiples={"F": 2})},
    "tile_features": {"x": one("tile_features", repetitions=2)},
    "top_k": {"x": one("top_k", axis="F", k=2, k_dim=Dim(2, name="best"))},
    "twod_lstm": {"x": one("twod_lstm", ["base:other", X], n_out=4)},
    "unmask": {
        **mask("m"),
        "x_masked": one("masked_computation", mask="m", unit=one("linear", "data", activation=None, n_out=4)),
        "x": one("unmask", "x_masked", mask="m"),
    },
    "variable": {"v": one("variable", [], shape=(6,), init=2.0), "x": one("combine", [X, "v"], kind="mul")},
    "window": {"x": one("window", window_size=3, window_right=0)},
}  # fmt: skip
PRODUCT = {"p": one("combine", [X, "base:other"], kind="mul")}  # in each frame, a sequence over another dim
STEPS |= {  # more options of some of them
    "cond, two dims of one size": {
        "c": one("compare", ":i", kind="less", value=2),
        "x": one("cond", [], condition="c", true_layer=one("linear", [X, "prev:x"], n_out=6, activation="tanh"),
                 false_layer=one("activation", activation="tanh")),
    },
    "masked_computation, of another dim": {
        **PRODUCT, "mean": one("reduce", "base:other", mode="mean", axis="F"),
        "m": one("compare", "mean", kind="greater", value=-0.5),
        "left": one("masked_computation", "p", mask="m", unit=one("rec", "data", unit="nativelstm2", n_out=4)),
        "u": one("unmask", "left", mask="m"), "x": one("reduce", "u", mode="sum", axis="T"),
    },
    "prefix_in_time, by the frame": {
        **PRODUCT, "n": one("cast", ":i", dtype="int32"),
        "f": one("prefix_in_time", "p", prefix=0.3, repeat="n"), "x": one("reduce", "f", mode="mean", axis="T"),
    },
    "rec, over another dim": {
        **PRODUCT, "l": one("rec", "p", unit="nativelstm2", n_out=3, axis="T"),
        "x": one("reduce", "l", mode="sum", axis="T"),
    },
    "rec, in a loop over another dim": {
        **PRODUCT, "x": one("reduce", "l", mode="max", axis="T"),
        "l": one("rec", "p", unit={
            "a": one("linear", [X, "prev:a"], n_out=3, activation="tanh"),
            "output": one("rec", "a", unit="nativelstm2", n_out=3),
        }),
    },
}  # fmt: skip
# Options that name layers of the step.
NAMES_LAYERS = (
    "from", "base", "base_ctx", "condition", "true_from", "false_from", "mask", "weights", "key_shift", "repeat",
)  # fmt: skip
ELSEWHERE = {  # with the reason, or where there is a test
    "looks at the batch, or at more than a frame": [
        "accumulate_mean", "batch_norm", "batch_softmax", "batch_median_pooling", "framewise_statistics",
        "synthetic_gradient", "tikhonov_regularization", "reshape", "shift_axis", "time_chunking", "time_unchunking",
        "swap_time_feature", "multichannel_stft_layer", "multichannel_multiresolution_stft_layer",
        "split_concatenated_multichannel", "first_t_frames_noise_estimator", "parametric_wiener_filter",
        "mask_based_gevbeamforming", "mask_based_mvdrbeamforming", "signal_masking", "edit_distance",
        "apply_length_distribution", "classes_to_length_distribution", "classes_to_length_distribution_global",
        "classes_to_segments", "normalize_length_scores", "segment_alignment", "segment_input", "unsegment_input",
        "flatten_batch", "flatten_time", "unflatten_batch", "unflatten_nd", "split_batch_time", "combine_dims", "loss",
        "ctc_loss", "ctc_decode", "fast_bw", "forced_align", "sparse_softmax_cross_entropy_with_logits",
    ],
    "is random, or has side effects": [
        "rand_int", "random", "random_state_init", "hdf_dump", "image_summary", "print", "variable_assign",
        "variable_read", "global_train_step", "train_flag",
    ],
    "is about loops from outside, or about search": [
        "choice_get_beam_scores", "choice_get_src_beams", "decide", "decide_keep_beam", "split_batch_beam",
        "get_rec_accumulated", "rec_last_output", "source", "kenlm",
    ],
    "changes dims, see the test of those": [
        "boolean_mask", "conv", "cond", "fold", "gather_nd", "istft", "postfix_in_time", "prefix_in_time", "range",
        "range_from_length", "range_in_axis", "remove", "repeat", "resize", "scatter_nd", "search_sorted",
        "seq_len_mask", "slice_nd", "stft", "transpose", "transposed_conv", "pool", "weighted_sum", "time_chunking",
    ],
    "calls another one": ["forward", "gradient", "complex_to_alternating_real"],
}  # fmt: skip

WITHOUT_GRADIENT = ("cast", "edit_distance_table", "optimal_completions")


def test_all_layer_classes_are_looked_at():
    named = {name.partition(",")[0] for name in STEPS} | {name for names in ELSEWHERE.values() for name in names}
    classes = {get_layer_class(name) for name in named}
    # Other tests register layer classes of their own in the same process.
    own = [name for name in get_layer_class_name_list() if get_layer_class(name).__module__.startswith("returnn.")]
    missing = [name for name in own if get_layer_class(name) not in classes]
    assert not missing, f"add a step with these layers: {missing}"


def prefix_of(name):
    return name.replace(":", "step_").replace(", ", "_").replace(" ", "_")


# Each class has its own copies of what it reads, so that all gradients come out at once.
COPIED = {"data": "data", "vec": "data:vec", "other": "other"}


def names_of(name, layers):
    """:return: how a layer class calls its layers, and its copies of what it reads, in a step with all of them"""
    prefix = prefix_of(name)
    copied = {f"base:{key}": f"base:{prefix}_{key}" for key in COPIED}
    return {**{key: f"{prefix}_{key}" for key in layers}, **copied, X: f"{prefix}_source"}


def renamed(desc, names):
    """:return: options of a layer, with other names for the layers of its step"""

    def of_value(value):
        if isinstance(value, (list, tuple)):
            return type(value)(of_value(item) for item in value)
        prev, name = ("prev:", value[5:]) if value.startswith("prev:") else ("", value)
        first, slash, rest = name.partition("/")
        return prev + names.get(first, first) + slash + rest

    inner = {key: renamed(desc[key], names) for key in ("true_layer", "false_layer") if key in desc}
    return {key: of_value(value) if key in NAMES_LAYERS else value for key, value in {**desc, **inner}.items()}


def in_loop(steps, *, optimize):
    """:return: a loop over "data", whose step has all of these layers; "name_sum" is a number for each frame"""
    unit = {"output": {"class": "copy", "from": X}}
    for name, layers in steps.items():
        names, prefix = names_of(name, layers), prefix_of(name)
        unit[names[X]] = one("rec_unstack", names["base:data"])
        unit.update({names[key]: renamed(desc, names) for key, desc in layers.items()})
        # Curved, so that gradients differ from entry to entry.
        unit[f"{prefix}_curved"] = one("eval", names["x"], eval="source(0) + tf.sin(2. * source(0))")
        unit[f"{prefix}_sum"] = one("reduce", f"{prefix}_curved", mode="sum", axis="except_batch", is_output_layer=True)
    return {**one("rec", "data", unit=unit, optimize_move_layers_out=optimize, back_prop=True), "is_output_layer": True}


LENGTHS = numpy.array([4, 3], "int32")


class Loops:
    """The same steps inside of a loop, and moved out."""

    def __init__(self, steps):
        self.names = list(steps)
        net_dict = {
            "other": {"class": "slice", "axis": "T", "slice_start": 1, "from": "data"},
            "vec": {"class": "copy", "from": "data:vec"},
            "labels": {"class": "slice", "axis": "T", "slice_step": 2, "from": "data:ids"},
            **{
                f"{prefix_of(name)}_{key}": one("eval", source, eval="tf.identity(source(0))")
                for name in steps
                for key, source in COPIED.items()
            },
            "inside": in_loop(steps, optimize=False),
            "moved": in_loop(steps, optimize=True),
            "output": {"class": "copy", "from": "data"},
        }
        time_dim = Dim(None, name="frames", kind=Dim.Types.Spatial)
        extern_data = {
            "data": {
                "time_dim_axis": 1,
                "dim_tags": [batch_dim, time_dim, Dim(6, name="features", kind=Dim.Types.Feature)],
            },
            "vec": {"dim": 6, "shape": (6,), "time_dim_axis": None},
            "ids": {"time_dim_axis": 1, "dim_tags": [batch_dim, time_dim], "sparse": True, "dim": 5},
        }
        with tf.Graph().as_default() as self.graph:
            config = Config({"extern_data": extern_data, "network": net_dict, "behavior_version": 21})
            BehaviorVersion.set(21)
            net = TFNetwork(config=config, train_flag=False, eval_flag=True)
            self.extern = net.extern_data.data
            self.lengths = self.extern["data"].dims[1].dyn_size_ext.raw_tensor
            self.batch_size = self.extern["data"].batch.dim
            net.construct_from_dict(net_dict)
            self.variables = {p.name.split(":")[0]: p for p in net.get_params_list()}
            copies = [f"{prefix_of(name)}_{key}" for name in steps for key in COPIED]
            self.copies = {name: net.layers[name].output.raw_tensor for name in copies if name in net.layers}
            outputs = {place: self._of_place(net, place) for place in ("inside", "moved")}
            self.fetches = {place: (out, self._gradients(place, out)) for place, out in outputs.items()}
            self.session = tf1.Session(graph=self.graph)
            self.session.run(tf1.global_variables_initializer())
            for name, variable in self.variables.items():
                value = drawn(name.partition("/")[2], tuple(variable.shape))
                self.session.run(variable.assign(value))

    def _of_place(self, net, place):
        sums = [net.get_layer(f"{place}/{prefix_of(name)}_sum").output.copy_masked(0) for name in self.names]
        return {name: x.copy_as_batch_major().raw_tensor for name, x in zip(self.names, sums, strict=True)}

    def _gradients(self, place, outputs):
        """:return: by name of the parameter without the loop, or of what was read"""
        params = {
            name.removeprefix(f"{place}/"): param
            for name, param in self.variables.items()
            if name.startswith(f"{place}/")
        }
        targets = {**params, **self.copies}
        weight = tf.range(1.0, tf.cast(tf.reduce_max(self.lengths) + 1, tf.float32))  # of each frame another one
        total = tf.add_n([tf.reduce_sum(out * weight) for out in outputs.values()])
        grads = tf1.gradients(total, list(targets.values()), unconnected_gradients="zero")
        return {name: tf.convert_to_tensor(grad) for name, grad in zip(targets, grads, strict=True)}

    def run(self):
        """:return: by place: frames of the sums by class, and all gradients; and the frames of each sequence alone"""
        together, *alone = (self.session.run(self.fetches, self._feed(rows)) for rows in ([0, 1], [0], [1]))
        return together, [{place: out for place, (out, _) in single.items()} for single in alone]

    def _feed(self, rows):
        rnd = numpy.random.RandomState(3)
        data, ids = rnd.normal(size=(2, 4, 6)).astype("float32"), rnd.randint(0, 5, (2, 4)).astype("int32")
        vec, lengths = rnd.normal(size=(2, 6)).astype("float32"), LENGTHS[rows]
        feed = {
            self.extern["data"].raw_tensor: data[rows, : max(lengths)],
            self.extern["ids"].raw_tensor: ids[rows, : max(lengths)],
            self.extern["vec"].raw_tensor: vec[rows],
            self.lengths: lengths,
        }
        if tf.is_tensor(self.batch_size):
            feed[self.batch_size] = len(rows)
        return feed


GROUP_SIZE = 12  # so many classes in a graph: gradients of large loops take long to make


@functools.cache
def results_of_group(number):
    """:return: see `Loops.run`"""
    return Loops(dict(list(STEPS.items())[number * GROUP_SIZE : (number + 1) * GROUP_SIZE])).run()


@pytest.fixture
def results(name):
    return results_of_group(list(STEPS).index(name) // GROUP_SIZE)


@pytest.mark.parametrize("name", STEPS)
def test_moving_a_layer_out_of_the_loop_changes_nothing(results, name):
    inside, moved = (results[0][place][0][name] for place in ("inside", "moved"))
    assert numpy.isfinite(inside).all()
    numpy.testing.assert_allclose(moved, inside, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", STEPS)
def test_moving_a_layer_out_of_the_loop_changes_no_gradient(results, name):
    inside, moved = (results[0][place][1] for place in ("inside", "moved"))
    assert set(inside) == set(moved)
    names = [key for key in inside if key.startswith((f"{prefix_of(name)}_", f"rec/{prefix_of(name)}_"))]
    for key in names:
        numpy.testing.assert_allclose(moved[key], inside[key], rtol=1e-3, atol=1e-4, err_msg=key)
    has_gradient = any(inside[key].any() for key in names)
    assert has_gradient == (name not in WITHOUT_GRADIENT)


@pytest.mark.parametrize("place", ["inside", "moved"])
@pytest.mark.parametrize("name", STEPS)
def test_a_loop_over_a_batch_is_loops_over_its_sequences(results, name, place):
    together, alone = results
    for frames, single, length in zip(together[place][0][name], alone, LENGTHS, strict=True):
        numpy.testing.assert_allclose(frames[:length], single[place][name][0], rtol=1e-4, atol=1e-4)
