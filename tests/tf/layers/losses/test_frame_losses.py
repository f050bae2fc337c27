"""Losses: against formulas in numpy, and the properties that all share."""

import numpy
import pytest
import tensorflow as tf

import returnn.frontend as rf
from returnn.tf.layers.core.loss import Loss
from returnn.tf.layers.options.registry import get_loss_class, get_loss_class_name_list
from returnn.tf.util.data import FeatureDim, SpatialDim
from returnn.util.errors import ConfigError
from returnn.util.system.warn_once import forget_shown
from tests.tf.layers.layer_net import LENGTHS, batch_of, construct, one_of

tf1 = tf.compat.v1
ZEROS = {"float32": 0.0, "int32": 0}
LABELS = {"loss": "ce", "target": "ids", "n_out": 5, "from": "data"}
CASES = {
    "ce": {"class": "softmax", **LABELS},
    "ce_not_fused": {"class": "softmax", **LABELS, "loss_opts": {"use_fused": False, "safe_log_opts": {"eps": 1e-10}}},
    "ce_log_prob": {"class": "linear", "activation": "log_softmax", **LABELS, "loss_opts": {"input_type": "log_prob"}},
    "ce_smooth": {"class": "softmax", **LABELS, "loss_opts": {"label_smoothing": 0.2}},
    "ce_gaussian": {
        "class": "softmax", **LABELS, "loss_opts": {"label_smoothing": 0.2, "label_smoothing_gaussian": True},
    },
    "ce_focal": {"class": "softmax", **LABELS, "loss_opts": {"focal_loss_factor": 2.0}},
    "ce_bounded": {"class": "softmax", **LABELS, "loss_opts": {"fake_upper_bound": 1.0}},
    "generic_ce": {"class": "linear", "activation": "exp", **{**LABELS, "loss": "generic_ce"}},
    "bin_ce": {
        "class": "linear", "activation": None, "n_out": 6, "from": "data", "loss": "bin_ce", "target": "layer:bits",
        "loss_opts": {"pos_weight": 2.0},
    },
    "mse": {"class": "linear", "activation": None, "n_out": 6, "from": "data", "loss": "mse", "target": "data"},
    "mse_labels": {"class": "softmax", **{**LABELS, "loss": "mse"}},
    **{
        f"{loss} of numbers": {"class": "copy", "from": "number", "loss": loss, "target": "layer:other_number"}
        for loss in ("mse", "l1", "mean_l1", "bin_ce")
    },
    "l1": {"class": "linear", "activation": None, "n_out": 6, "from": "data", "loss": "l1", "target": "data"},
    "mean_l1": {"class": "linear", "activation": None, "n_out": 6, "from": "data", "loss": "mean_l1", "target": "data"},
    "as_is": {"class": "activation", "activation": "square", "from": "data", "loss": "as_is"},
    "ctc": {"class": "softmax", "n_out": 6, "from": "data", "loss": "ctc", "target": "layer:short"},
    "ctc_native": {
        "class": "softmax", "n_out": 6, "from": "data", "loss": "ctc", "target": "layer:short",
        "loss_opts": {"use_native": True, "beam_width": 1},
    },
    "edit_distance": {"class": "copy", "from": "best", "loss": "edit_distance", "target": "ids"},
    "bleu": {"class": "copy", "from": "best", "loss": "bleu", "target": "ids"},
    "deep_clustering": {
        "class": "linear", "activation": None, "n_out": 8, "from": "data", "loss": "deep_clustering",
        "target": "layer:sources", "loss_opts": {"embedding_dimension": 4, "nr_of_sources": 2},
    },
    "sampling": {
        "class": "linear", "activation": None, **{**LABELS, "loss": "sampling_loss"},
        "loss_opts": {"use_full_softmax": True},
    },
    "sampling_softmax": {
        "class": "softmax", **{**LABELS, "loss": "sampling_loss"}, "loss_opts": {"use_full_softmax": True},
    },
    "sampling_of_all": {
        "class": "linear", "activation": None, **{**LABELS, "loss": "sampling_loss"},
        "loss_opts": {"num_sampled": 5, "sampler": "uniform", "num_splits": 2},
    },
    "triplet": {
        "class": "linear", "activation": None, "n_out": 6, "from": "data:vec", "loss": "triplet_loss",
        "target": "layer:triple", "loss_opts": {"margin": 0.5},
    },
    "triplet_views": {
        "class": "linear", "activation": None, "n_out": 12, "from": "data:vec", "loss": "triplet_loss",
        "target": "layer:triple", "loss_opts": {"margin": 0.5, "multi_view_training": True},
    },
}  # fmt: skip
HELPERS = {
    "number": {"class": "reduce", "mode": "sum", "axis": "F", "from": "with_params"},
    "with_params": {"class": "linear", "activation": None, "n_out": 3, "from": "data"},
    "other_number": {"class": "reduce", "mode": "mean", "axis": "F", "from": "bits"},
    "bits": {"class": "eval", "eval": "tf.cast(source(0) > 0, tf.float32)", "from": "data"},
    "short": {"class": "slice", "axis": "T", "slice_start": 0, "slice_end": 2, "from": "data:ids"},
    "best": {"class": "reduce", "mode": "argmax", "axis": "F", "from": "ce"},
    "sources": {"class": "slice", "axis": "F", "slice_start": 0, "slice_end": 2, "from": "bits"},
    "triple": {
        "class": "eval", "from": "data:vec", "eval": "tf.cast(source(0)[:, :3] > 0, tf.int32)",
        "out_type": {"dim": 3, "dtype": "int32"},
    },
}  # fmt: skip
SPRINT_OPTS = {"sprint_opts": {"sprintExecPath": "/nowhere", "sprintConfigStr": ""}}  # errors need no RASR
WITH_LABELS = {
    **{name: desc for name, desc in CASES.items() if desc.get("target") == "ids"},
    "bin_ce_labels": {"class": "linear", "activation": None, **{**LABELS, "loss": "bin_ce"}},
    "generic_ce_sum": {"class": "softmax", **{**LABELS, "loss": "generic_ce"}},
    "l1_labels": {"class": "softmax", **{**LABELS, "loss": "l1"}},
    "mean_l1_labels": {"class": "softmax", **{**LABELS, "loss": "mean_l1"}},
    "ctc_labels": {"class": "softmax", **{**LABELS, "loss": "ctc", "n_out": 6}},
    "sprint": {"class": "softmax", **{**LABELS, "loss": "sprint"}, "loss_opts": SPRINT_OPTS},
    "fast_bw": {"class": "softmax", **{**LABELS, "loss": "fast_bw"}, "loss_opts": SPRINT_OPTS},
    "via_layer": {"class": "softmax", **{**LABELS, "loss": "via_layer"}, "loss_opts": {"align_layer": "align"}},
}  # fmt: skip
SUMS_OVER_SEQUENCES = [name for name in CASES if not name.startswith("triplet")]


def behind(name, net_dict):
    """:return: the same with this layer in place of "data" as source"""
    return {key: {**desc, "from": name} if desc["from"] == "data" else desc for key, desc in net_dict.items()}


class LossNet:
    def __init__(self, **layers):
        """:param layers: the last one is the source of all that have features as source; default: "data" """
        with tf.Graph().as_default() as self.graph, rf.backend_ctx("tf"):
            tf1.set_random_seed(1)
            net_dict = {**HELPERS, **CASES, "output": {"class": "copy", "from": "data"}}
            if layers:
                net_dict = {**layers, **behind([*layers][-1], net_dict)}
            self.net = construct(net_dict, train_flag=True)
            losses, _, _ = self.net.get_losses_initialized()
            params = self.params = self.net.get_trainable_params()
            self.fetches = {}
            for name, loss in losses.items():
                value, error = loss.get_loss_value(), loss.get_error_value()
                found = [] if value is None else tf1.gradients(value, params)
                gradients = [tf.convert_to_tensor(g) for g in found if g is not None]  # of samples, these are sparse
                known = {"value": value, "error": error, "gradients": gradients}
                self.fetches[name] = {key: x for key, x in known.items() if x is not None}
            self.fetches["outputs"] = {name: self.net.get_layer(name).output.raw_tensor for name in CASES}
            self.session = tf1.Session(graph=self.graph)
            self.session.run(tf1.global_variables_initializer())

    def run(self, batch, lengths=LENGTHS):
        feed = {}
        with self.graph.as_default():
            for key in ("data", "ids", "vec"):
                data = self.net.extern_data.data[key]
                feed[data.raw_tensor] = batch[key]
                feed.update((dim.dyn_size, lengths) for dim in data.dims if dim.is_dynamic_seq_length())
                feed[data.batch.dim] = len(lengths)
        return self.session.run(self.fetches, feed_dict=feed)


@pytest.fixture(scope="module")
def net():
    return LossNet()


@pytest.fixture(scope="module")
def results(net):
    return net.run(batch_of())


@pytest.fixture(scope="module")
def results_padded_with_zeros(net):
    return net.run(batch_of(padding=ZEROS))


def assert_close(actual, expected):
    assert expected
    tf.nest.map_structure(lambda a, b: numpy.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), actual, expected)


def without_gradients(result):
    return {key: value for key, value in result.items() if key != "gradients"}


@pytest.mark.parametrize("name", CASES)
def test_padding_does_not_matter_for_the_loss(results, results_padded_with_zeros, name):
    assert_close(without_gradients(results[name]), without_gradients(results_padded_with_zeros[name]))


@pytest.mark.parametrize("name", CASES)
def test_padding_does_not_matter_for_the_gradient(net, results_padded_with_zeros, name):
    assert_close(net.run(batch_of(padding={"float32": 10.0, "int32": 4}))[name], results_padded_with_zeros[name])


@pytest.fixture(scope="module")
def results_of_time_major(net):
    other = LossNet(time_major={"class": "transpose", "perm": {"B": "T", "T": "B"}, "from": "data"})
    assert other.net.get_layer("ce").output.is_time_major
    values = {param.name: value for param, value in zip(net.params, net.session.run(net.params), strict=True)}
    with other.graph.as_default():
        other.session.run([param.assign(values[param.name]) for param in other.params])
    return other.run(batch_of())


@pytest.mark.parametrize("name", CASES)
def test_the_order_of_axes_does_not_matter(results, results_of_time_major, name):
    assert_close(results_of_time_major[name], results[name])


@pytest.mark.parametrize("name", SUMS_OVER_SEQUENCES)
def test_the_loss_of_a_batch_is_the_sum_over_its_sequences(net, results_padded_with_zeros, name):
    singles = [net.run(one_of(batch_of(), i), [length])[name] for i, length in enumerate(LENGTHS)]
    assert_close(results_padded_with_zeros[name], tf.nest.map_structure(lambda *parts: sum(parts), *singles))


def test_an_error_of_frames_does_not_depend_on_whether_target_and_output_share_their_time_dim():
    """Otherwise, each frame of the one would be compared with each of the other."""
    helpers = {
        "same_time": {"class": "reinterpret_data", "from": "data:ids", "size_base": "data"},
        "scores": {"class": "linear", "activation": "log_softmax", "n_out": 5, "from": "data"},
        "align": {"class": "fast_bw", "align_target": "ctc", "align_target_key": "ids", "from": "scores"},
    }
    cases = {name: {**desc, "loss_scale": 0.0} for name, desc in WITH_LABELS.items()}
    of_same_time = {
        f"{name} again": {**desc, "target": "layer:same_time", "reuse_params": name} for name, desc in cases.items()
    }
    with tf.Graph().as_default() as graph, rf.backend_ctx("tf"), tf1.Session(graph=graph) as session:
        net = construct({**HELPERS, "ce": CASES["ce"], **helpers, **cases, **of_same_time}, train_flag=True)
        losses, _, _ = net.get_losses_initialized()
        errors = {name: loss.get_error_value() for name, loss in losses.items()}
        errors = {name: error for name, error in errors.items() if error is not None}
        batch, feed = batch_of(padding=ZEROS), {}
        for key in ("data", "ids"):
            data = net.extern_data.data[key]
            feed.update({data.raw_tensor: batch[key], data.batch.dim: len(LENGTHS)})
            feed.update((dim.dyn_size, LENGTHS) for dim in data.dims if dim.is_dynamic_seq_length())
        session.run(tf1.global_variables_initializer())
        errors = session.run(errors, feed)
    apart, shared = ({name: errors.get(f"{name}{suffix}") for name in cases} for suffix in ("", " again"))
    apart, shared = ({name: x for name, x in of.items() if x is not None} for of in (apart, shared))
    assert_close(apart, shared)
    assert {cases[name]["loss"] for name in apart} >= {"ce", "sprint", "fast_bw", "via_layer"}
    of_frames = [name for name in apart if get_loss_class(cases[name]["loss"]).error_per_frame is Loss.error_per_frame]
    assert all(0 <= errors[name] <= sum(LENGTHS) for name in of_frames)
    other_targets = {"as_is", "deep_clustering", "expected_loss", "search_score", "sse_sigmoid", "triplet_loss"}
    assert {cases[name]["loss"] for name in cases} == {*get_loss_class_name_list()} - other_targets


def frames(array):
    return numpy.concatenate([row[:length] for row, length in zip(array, LENGTHS, strict=True)])


def test_cross_entropy_is_minus_the_log_probability_of_the_label(results):
    prob, labels = frames(results["outputs"]["ce"]), frames(batch_of()["ids"])
    expected = -numpy.log(prob[numpy.arange(len(labels)), labels]).sum()
    numpy.testing.assert_allclose(results["ce"]["value"], expected, rtol=1e-5)
    assert results["ce"]["error"] == (prob.argmax(-1) != labels).sum()


@pytest.mark.parametrize("name", ["sampling", "sampling_of_all"])
def test_a_sample_of_all_labels_is_the_cross_entropy(results, results_of_time_major, name):
    labels = frames(batch_of()["ids"])
    for found in (results, results_of_time_major):
        logits = frames(results["outputs"][name])
        log_prob = logits - numpy.log(numpy.exp(logits).sum(axis=-1, keepdims=True))
        expected = -log_prob[numpy.arange(len(labels)), labels].sum()
        numpy.testing.assert_allclose(found[name]["value"], expected, rtol=1e-4)


@pytest.mark.parametrize("full", [True, False])
def test_an_evaluation_by_a_sample_is_told(full, caplog):
    forget_shown()
    desc = {**CASES["sampling_of_all"], "loss_opts": {"num_sampled": 5, "use_full_softmax": full}}
    with tf.Graph().as_default(), rf.backend_ctx("tf"):
        net = construct({"output": desc}, train_flag=False)
        net.get_losses_initialized()[0]["output"].get_loss_value()
    told = [record.message for record in caplog.records if "the value is that of a sample" in record.message]
    assert len(told) == (not full)


def test_what_is_a_log_probability_has_a_perplexity(net):
    has = {name: net.net.get_layer(name).loss.has_perplexity for name in ("ce", "sampling", "sampling_of_all", "mse")}
    assert has == {"ce": True, "sampling": True, "sampling_of_all": False, "mse": False}


def test_smoothed_cross_entropy_is_zero_for_the_smoothed_label(results):
    prob, labels = frames(results["outputs"]["ce_smooth"]), frames(batch_of()["ids"])
    target = numpy.full(prob.shape, 0.2 / 4)
    target[numpy.arange(len(labels)), labels] = 0.8
    expected = (target * (numpy.log(target) - numpy.log(prob))).sum()
    numpy.testing.assert_allclose(results["ce_smooth"]["value"], expected, rtol=1e-5)


def test_focal_loss_counts_sure_frames_less(results):
    prob, labels = frames(results["outputs"]["ce_focal"]), frames(batch_of()["ids"])
    p = prob[numpy.arange(len(labels)), labels]
    numpy.testing.assert_allclose(results["ce_focal"]["value"], (-numpy.log(p) * (1 - p) ** 2).sum(), rtol=1e-5)


def test_upper_bound_cuts_the_value(results):
    prob, labels = frames(results["outputs"]["ce_bounded"]), frames(batch_of()["ids"])
    values = -numpy.log(prob[numpy.arange(len(labels)), labels])
    numpy.testing.assert_allclose(results["ce_bounded"]["value"], numpy.minimum(values, 1.0).sum(), rtol=1e-5)


def test_binary_cross_entropy_weighs_positive_entries(results):
    logits, data = frames(results["outputs"]["bin_ce"]), frames(batch_of()["data"])
    p, y = 1 / (1 + numpy.exp(-logits)), data > 0
    values = numpy.where(y, -2 * numpy.log(p), -numpy.log(1 - p))
    numpy.testing.assert_allclose(results["bin_ce"]["value"], values.mean(-1).sum(), rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("mse", lambda x: (x**2).mean(-1).sum()),
        ("l1", lambda x: abs(x).sum()),
        ("mean_l1", lambda x: abs(x).mean(-1).sum()),
    ],
)
def test_regression_losses(results, name, formula):
    difference = frames(results["outputs"][name]) - frames(batch_of()["data"])
    numpy.testing.assert_allclose(results[name]["value"], formula(difference), rtol=1e-5)


@pytest.mark.parametrize(
    ("loss", "formula"),
    [
        ("mse", lambda x, y: (x - y) ** 2),
        ("l1", lambda x, y: abs(x - y)),
        ("mean_l1", lambda x, y: abs(x - y)),
        ("bin_ce", lambda x, y: numpy.log1p(numpy.exp(x)) - x * y),
    ],
)
def test_losses_of_numbers_without_a_feature_dim(results, loss, formula):
    number = frames(results["outputs"][f"{loss} of numbers"])
    other = frames((batch_of()["data"] > 0).mean(axis=-1))
    numpy.testing.assert_allclose(results[f"{loss} of numbers"]["value"], formula(number, other).sum(), rtol=1e-4)


def test_both_implementations_of_ctc_agree(results):
    # Their parameters differ, so compare the loss with the sum over all paths of a single label pair, by enumeration.
    for name in ("ctc", "ctc_native"):
        total = 0.0
        for row, length in enumerate(LENGTHS):
            prob, labels = results["outputs"][name][row, :length], batch_of()["ids"][row, :2]
            total -= numpy.log(_sum_of_paths(prob, list(labels)))
        numpy.testing.assert_allclose(results[name]["value"], total, rtol=1e-4)


def _sum_of_paths(prob, labels):
    total = 0.0
    for path in numpy.ndindex(*[prob.shape[1]] * len(prob)):
        without_repetition = [k for i, k in enumerate(path) if i == 0 or k != path[i - 1]]
        if [k for k in without_repetition if k != prob.shape[1] - 1] == labels:
            total += numpy.prod([prob[t, k] for t, k in enumerate(path)])
    return total


def compute_loss(desc):
    net = construct({"output": {"is_output_layer": True, **desc}}, train_flag=True)
    losses, _, _ = net.get_losses_initialized()
    return [loss.get_loss_value() for loss in losses.values()]


@pytest.mark.parametrize(
    ("desc", "words"),
    [
        ({**CASES["ce"], "loss": "cee"}, ["'cee'", "'ce'"]),
        ({**CASES["ce"], "loss_opts": {"label_smooting": 0.1}}, ["output", "'ce'", "Did you mean 'label_smoothing'"]),
        ({**CASES["triplet"], "target": "ids", "loss_opts": {}}, ["'margin'", "required"]),
        ({**CASES["ce"], "target": 5}, ["layer 'output'", "'target' has to be a text or a list", "not 5"]),
        ({**CASES["ce"], "target": [["ids"]]}, ["'target' has to be a text or a list (a text each), not [['ids']]"]),
        ({**CASES["ce"], "loss": {"class": "ce"}}, ["layer 'output'", "'loss' has to be a text, not {'class': 'ce'}"]),
        ({**CASES["ce"], "loss_opts": "sum"}, ["layer 'output'", "'loss_opts' has to be a dict, not 'sum'"]),
        ({**CASES["ce"], "loss_scale": "2"}, ["layer 'output'", "'loss_scale' has to be a number, not '2'"]),
        ({**CASES["ce"], "loss_opts": {"label_smoothing": 2}}, ["'label_smoothing': expected 0 to below 1, got 2."]),
        ({**CASES["ce"], "loss_opts": {"input_type": "probs"}}, ["'probs'", "'prob'"]),
        ({**CASES["ce"], "loss_opts": {"focal_loss_factor": 1.0}, "target": "data", "n_out": 6}, ["class labels"]),
        ({**CASES["mse"], "n_out": 4}, ["different feature dims"]),
        ({**CASES["ctc"], "n_out": 5, "target": "ids"}, ["blank", "'n_out' 6"]),
        ({**CASES["ctc"], "target": "data"}, ["sparse"]),
        ({**CASES["ctc"], "target": "ids", "loss_opts": {"ctc_opts": {"label_lop": 1}}}, ["'label_lop'", "Possible"]),
        ({"class": "copy", "from": "data", "loss": "edit_distance", "target": "ids"}, ["sparse", "ctc_decode"]),
        ({"class": "copy", "from": "data:ids", "loss": "edit_distance", "target": "data"}, ["target has to be sparse"]),
        ({"class": "copy", "from": "data:ids", "loss": "bleu", "target": "data"}, ["target has to be sparse"]),
        ({"class": "copy", "from": "data", "loss": "search_score"}, ["search"]),
        ({"class": "copy", "from": "data", "loss": "via_layer"}, ["error_signal_layer", "align_layer"]),
        ({**CASES["sampling_of_all"], "activation": "tanh"}, ["without activation"]),
        ({**CASES["sampling_of_all"], "loss_opts": {"num_sampled": 6}}, ["'num_sampled': expected 1 to 5", "got 6"]),
        ({**CASES["sampling_of_all"], "loss_opts": {"num_sampled": 0}}, ["'num_sampled': expected 1 to 5", "got 0"]),
    ],
)  # fmt: skip
def test_wrong_use_is_explained(desc, words):
    with tf.Graph().as_default(), rf.backend_ctx("tf"), pytest.raises(ConfigError) as info:
        compute_loss(desc)
    text = str(info.value)
    assert len(text.splitlines()) <= 5
    for word in words:
        assert word in text


def test_a_target_of_frames_does_not_say_which_of_two_time_dims_it_has():
    longer = {"class": "prefix_in_time", "from": "data", "prefix": 0.0}
    pairs = {"class": "combine", "kind": "add", "from": ["data", "longer"], "allow_broadcast_all_sources": True}
    output = {"class": "softmax", "from": "pairs", "loss": "ce", "target": "ids"}
    with tf.Graph().as_default(), rf.backend_ctx("tf"):
        net = construct({"longer": longer, "pairs": pairs, "output": output}, train_flag=True)
        losses, _, _ = net.get_losses_initialized()
        with pytest.raises(ConfigError, match="not clear which dims of the target"):
            losses["output"].get_loss_value()


def pairs_of_triplets(x, y, labels, margin):
    """:return: sum over all pairs of a vector of `x` with one of `y`"""
    x, y = (v.reshape(-1, v.shape[-1]) / numpy.linalg.norm(v, axis=-1).reshape(-1, 1) for v in (x, y))
    distance, labels = 1 - x @ y.T, labels.reshape(-1)
    same = numpy.equal.outer(labels, labels) + 0.5 * numpy.not_equal.outer(labels == 0, labels == 0)
    return (same * distance + (1 - same) * numpy.maximum(0, margin - distance)).sum()


def test_triplet_loss_is_about_all_pairs_of_the_batch(results):
    vectors = results["outputs"]["triplet"].reshape(-1, 3, 2)
    expected = pairs_of_triplets(vectors, vectors, batch_of()["vec"][:, :3] > 0, 0.5) / 2
    numpy.testing.assert_allclose(results["triplet"]["value"], expected, rtol=1e-5)


def test_triplet_loss_of_two_views_is_that_of_two_triplets(results):
    vectors = results["outputs"]["triplet_views"].reshape(-1, 6, 2)
    triplets = [vectors[:, places] for places in ([0, 4, 5], [1, 4, 2])]
    expected = sum(pairs_of_triplets(x, x, batch_of()["vec"][:, :3] > 0, 0.5) for x in triplets) / 2
    numpy.testing.assert_allclose(results["triplet_views"]["value"], expected, rtol=1e-5)


def test_frames_of_a_static_time_dim_count_for_the_mean():
    with tf.Graph().as_default() as graph, rf.backend_ctx("tf"), tf1.Session(graph=graph) as session:
        frames = {"class": "expand_dims", "axis": "T", "dim": 4, "from": "data:vec"}
        loss = {"class": "copy", "from": "frames", "loss": "as_is", "loss_opts": {"use_normalized_loss": True}}
        net = construct({"frames": frames, "output": loss}, train_flag=True)
        _, total, _ = net.get_losses_initialized(with_total=True)
        vec = net.extern_data.data["vec"]
        feed = {vec.raw_tensor: numpy.ones((3, 6)), vec.batch.dim: 3}
        assert session.run(total, feed_dict=feed) == pytest.approx(6)


@pytest.mark.parametrize("loss", ["ce", "mse"])
def test_dims_of_fixed_size_are_those_of_the_target(loss):
    """Both have four labels in each frame, and dims of their own for them."""
    four = {name: SpatialDim(name, 4) for name in ("of output", "of target")}
    named = {
        name: {"class": "reinterpret_data", "from": "data:image", "set_dim_tags": {"dim:4": dim}}
        for name, dim in zip(("first", "second"), four.values(), strict=True)
    }
    best = {"class": "reduce", "mode": "argmax", "axis": "F", "from": "second"}
    target = "layer:best" if loss == "ce" else "layer:second"
    output = {"class": "softmax" if loss == "ce" else "copy", "from": "first", "loss": loss, "target": target}
    with tf.Graph().as_default() as graph, rf.backend_ctx("tf"), tf1.Session(graph=graph) as session:
        net = construct({**named, "best": best, "output": output}, train_flag=True)
        value = net.get_losses_initialized()[0]["output"].get_loss_value()
        data = net.extern_data.data["image"]
        probs = net.get_layer("output").output.copy_as_batch_major().raw_tensor
        session.run(tf1.global_variables_initializer())
        batch = batch_of(padding=ZEROS)["image"]
        feed = {data.raw_tensor: batch, data.get_time_dim_tag().dyn_size: LENGTHS, data.batch.dim: len(LENGTHS)}
        value, probs = session.run([value, probs], feed_dict=feed)
    if loss == "mse":
        assert value == 0
        return
    of_best = numpy.take_along_axis(probs, batch.argmax(-1)[..., None], -1)[..., 0]
    expected = -sum(numpy.log(frames[:length]).sum() for frames, length in zip(of_best, LENGTHS, strict=True))
    numpy.testing.assert_allclose(value, expected, rtol=1e-5)


def test_signal_of_a_layer_along_another_dim_of_the_same_size():
    size_of_first = {"out_dim": FeatureDim("first", 6), "n_out": 6}

    def gradient(size_of_second):
        second = {"class": "linear", "activation": "log_softmax", "from": "data", **size_of_second}
        align = {"class": "fast_bw", "align_target": "ctc", "align_target_key": "ids", "from": "scores"}
        signal = {"class": "eval", "from": ["align", "first"], "eval": "source(0) - tf.exp(source(1))"}
        loss = {"loss": "via_layer", "loss_opts": {"error_signal_layer": "signal"}}
        net_dict = {
            "first": {**second, **size_of_first},
            "scores": {"class": "copy", "from": "first"},
            "align": align,
            "signal": {**signal, "copy_output_loss_from_source_idx": 0},
            "second": second,
            "output": {"class": "copy", "from": "second", **loss},
        }
        with tf.Graph().as_default() as graph, rf.backend_ctx("tf"), tf1.Session(graph=graph) as session:
            net = construct(net_dict, train_flag=True)
            params = net.get_params_list()
            weights = next(x for x in params if x.name == "second/W:0")
            gradient = tf1.gradients(net.get_objective(), weights)[0]
            session.run([x.assign(tf.ones_like(x) * 0.1) for x in params])
            batch = batch_of(padding=ZEROS)
            feed = {net.extern_data.data[key].raw_tensor: batch[key] for key in ("data", "ids")}
            for key in ("data", "ids"):
                feed[net.extern_data.data[key].get_time_dim_tag().dyn_size] = LENGTHS
            feed[net.extern_data.data["data"].batch.dim] = len(LENGTHS)
            return session.run(gradient, feed_dict=feed)

    named, by_size = (gradient(size) for size in ({"out_dim": FeatureDim("second", 6)}, {"n_out": 6}))
    assert abs(named).max() > 0
    numpy.testing.assert_allclose(named, by_size, rtol=1e-5)


@pytest.mark.parametrize("options", [{"custom_inv_norm_factor": 4.0}, {"custom_norm_factor": 0.25}, {"scale": 0.25}])
def test_norm_factor_that_is_a_number(options):
    options = options if "scale" in options else {**options, "use_normalized_loss": True}
    loss = {"class": "copy", "from": "data:vec", "loss": "as_is", "loss_opts": options}
    with tf.Graph().as_default(), rf.backend_ctx("tf"), tf1.Session() as session:
        net = construct({"output": loss}, train_flag=True)
        data = net.extern_data.data["vec"]
        feed = {data.raw_tensor: batch_of()["vec"], data.batch.dim: len(LENGTHS)}
        assert session.run(net.get_objective(), feed) == pytest.approx(batch_of()["vec"].sum() * 0.25, rel=1e-5)
        fetched = session.run(net.get_fetches_dict(should_train=True), feed)
        assert fetched["loss"] == pytest.approx(batch_of()["vec"].sum() * 0.25, rel=1e-5)
        assert fetched["loss_norm_factor:output"] == pytest.approx(1 / len(LENGTHS) if "scale" in options else 0.25)
