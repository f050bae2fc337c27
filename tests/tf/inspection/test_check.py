"""`++task check`: all errors of a config at once, each short, and the table of layers."""

import copy
import io

import numpy
import pytest
import tensorflow as tf
from rich.console import Console

import returnn.__main__ as rnn
from returnn.config import Config, set_global_config
from returnn.datasets.util.vocabulary import SentencePieces, Vocabulary
from returnn.engine.data_identity import KnownData
from returnn.engine.run.known_labels import labels_of_config
from returnn.log import log
from returnn.tensor import Dim, batch_dim
from returnn.tf.checkpoint.average import write_checkpoint
from returnn.tf.inspection.config_check import check_config
from returnn.tf.inspection.loop_ends import end_warnings, unlimited_warnings
from returnn.tf.inspection.report import inspect_network
from returnn.tf.inspection.table import print_table
from returnn.tf.network.extern_data import ExternData
from returnn.util.backend_engine import BackendEngine
from returnn.util.behavior_version import BehaviorVersion
from returnn.util.system.warn_once import forget_shown

DATA = {"class": "Task12AXDataset", "num_seqs": 2}
DECODER = {
    "output": {"class": "choice", "target": "classes", "beam_size": 3, "from": "prob", "initial_output": 0},
    "end": {"class": "compare", "from": "output", "value": 0},
    "emb": {"class": "linear", "activation": None, "n_out": 4, "from": "prev:output"},
    "s": {"class": "rnn_cell", "unit": "LSTMBlock", "from": ["emb", "prev:att"], "n_out": 6},
    "query": {"class": "linear", "activation": None, "n_out": 7, "from": "s"},
    "energy_in": {"class": "combine", "kind": "add", "from": ["base:keys", "query"]},
    "energy": {"class": "linear", "activation": None, "n_out": 1, "from": "energy_in"},
    "weights": {"class": "softmax_over_spatial", "from": "energy"},
    "att": {"class": "generic_attention", "weights": "weights", "base": "base:encoder"},
    "prob": {"class": "softmax", "from": ["s", "att"], "target": "classes", "loss": "ce"},
}
KEY_DIM = Dim(None, name="key")
NETWORK = {
    "encoder": {"class": "rec", "unit": "nativelstm2", "n_out": 8, "from": "data"},
    "keys": {"class": "linear", "activation": None, "n_out": 7, "from": "encoder"},
    "output": {"class": "rec", "from": [], "target": "classes", "max_seq_len": 999, "unit": DECODER},
    "decision": {
        "class": "decide", "from": "output", "loss": "edit_distance", "target": "classes", "only_on_search": True,
    },
}  # fmt: skip


def options(**more):
    return {
        "extern_data": {"data": {"dim": 9}, "classes": {"dim": 2, "sparse": True}},
        "train": DATA,
        "network": copy.deepcopy(NETWORK),
        "optimizer": {"class": "adam"},
        "learning_rate": 0.1,
        "behavior_version": 21,
        **more,
    }


@pytest.fixture(autouse=True)
def no_global_state():
    BehaviorVersion.reset()
    forget_shown()
    with tf.Graph().as_default() as graph:
        yield
        assert not graph.get_operations(), "no graph is made"
    BehaviorVersion.reset()
    set_global_config(None)
    BackendEngine.selected_engine = None
    log.initialize(verbosity=[5])


def errors_of(**more):
    found = check_config(Config(options(**more))).errors
    assert all(len(error.split("\n")) <= 5 for error in found)
    return found


def test_a_good_config_has_no_errors():
    report = check_config(Config(options()))
    assert report.errors == []
    assert report.warnings == []
    assert report.looked_at == [
        "options", "optimizer", "network for training", "network for search", "data 'train': all 2 sequences",
    ]  # fmt: skip


def test_layers_of_an_extra_network_are_those_of_the_net_dict():
    config = options()
    loss = {"loss": "expected_loss", "loss_opts": {"loss": {"class": "edit_distance"}, "loss_kind": "error"}}
    config["network"]["risk"] = {"class": "copy", "from": "extra.search:output", "target": "classes", **loss}
    assert errors_of(**config) == []
    config["network"]["extra.search:best"] = {"class": "decide", "from": "output"}
    config["network"]["extra.search:user"] = {"class": "copy", "from": "best", "is_output_layer": True}
    assert errors_of(**config) == []
    config["network"]["risk"]["from"] = "extra.search:outputt"
    assert errors_of(**config) == ["layer 'risk': there is no layer 'outputt'.\n  Did you mean 'output'?"]


def test_all_independent_errors_are_found():
    config = options(batch_sizee=3, optimizer={"class": "adamm"}, search_output_layer="decisionn")
    net, unit = config["network"], config["network"]["output"]["unit"]
    net["keys"]["activaton"] = "relu"
    net["encoder"]["unit"] = "nativelstm3"
    net["extra"] = {"class": "softmax", "from": "encoderr", "loss": "ce"}
    net["wrong_size"] = {"class": "softmax", "from": "data", "n_out": 11, "loss": "ce"}
    net["text"] = "linear"
    unit["s"]["n_ot"] = 3
    unit["att"]["base"] = "base:encodr"
    unit["weights"]["class"] = "softmax_over_spatiall"
    unit["prob"]["loss"] = "cee"
    assert sorted(errors_of(**config)) == [
        "config: there is no optimizer 'adamm'.\n  Did you mean 'adam' or 'nadam' or 'adamw'?",
        "config: there is no option 'batch_sizee'. Did you mean 'batch_size'?",
        "layer 'encoder' (class 'rec'): option 'unit': there is no unit 'nativelstm3'.\n"
        "  Did you mean 'nativelstm' or 'nativelstm2' or 'nativelstmlowmem'?",
        "layer 'extra': there is no layer 'encoderr'.\n  Did you mean 'encoder'?",
        "layer 'keys' (class 'linear'): there is no option 'activaton'.\n  Did you mean 'activation'?",
        "layer 'output/att': there is no layer 'encodr'.\n  Did you mean 'encoder'?",
        "layer 'output/prob' (class 'softmax'): there is no loss 'cee'.\n  Did you mean 'ce'?",
        "layer 'output/s' (class 'rnn_cell'): there is no option 'n_ot'.\n  Did you mean 'n_out' or 'unit_opts'?",
        "layer 'output/weights': there is no layer class 'softmax_over_spatiall'.\n"
        "  Did you mean 'softmax_over_spatial'?",
        "layer 'text': expected a dict of options, got 'linear'.",
        "layer 'wrong_size' (class 'softmax'): loss 'ce': the output has 11 features, the target 'classes' 2 labels.\n"
        "  Without 'n_out', a 'softmax' layer takes the number of labels of its target.",
        "option 'search_output_layer': there is no layer 'decisionn'.\n  Did you mean 'decision'?",
    ]


def test_what_a_run_would_refuse_is_an_error():
    assert errors_of(update_batch_size=5, train_in_eval=True, learning_rate="x", window=-1) == [
        "option 'train_in_eval' is not supported: evaluation does not change parameters; put that data into 'train', "
        "with 'CombinedDataset'.",
        "option 'update_batch_size' is not supported: updates come after each batch; 'accum_grad_multiple_step' lets "
        "them wait.",
        "option 'learning_rate': got 'x', but expected a number of at least 0.\n"
        "  The learning rate, where nothing else decides. Default: 1.0.",
        "option 'window': got -1, but expected an integer from 0.\n"
        "  Width of the window of frames that data sets put into each frame. Default: 0.",
    ]


def test_learning_rates_that_a_step_could_not_get_are_errors():
    (error,) = errors_of(dynamic_learning_rate=lambda step, learning_rate: learning_rate)
    assert error.startswith(
        "option 'dynamic_learning_rate': the function cannot be called, missing a required argument"
    )
    assert "It has to be as: def dynamic_learning_rate(*, network, global_train_step, learning_rate, **" in error
    (error,) = errors_of(dynamic_learning_rate={"interval": 10, "decy": 0.5})
    assert error.startswith("option 'dynamic_learning_rate': there is no key 'decy'.\n  Did you mean 'decay'")


def test_a_policy_that_the_training_would_refuse_is_an_error():
    cleanup, best = errors_of(cleanup_old_models={"keep_best": 2}, use_last_best_model={"every": 2})
    assert cleanup.startswith(
        "option 'cleanup_old_models': there is no key 'keep_best'.\n  Did you mean 'keep_best_n' or"
    )
    assert best.startswith("option 'use_last_best_model': there is no key 'every'.\n")


def test_what_needs_a_wrong_layer_is_no_error_of_its_own():
    config = options()
    config["network"]["encoder"]["direction"] = 5
    assert errors_of(**config) == ["layer 'encoder' (class 'rec'): option 'direction': expected 1 or -1, got 5."]


def test_wrong_dims_inside_of_a_loop():
    config = options()
    config["network"]["output"]["unit"]["s"]["initial_state"] = "base:data"
    (error,) = errors_of(**config)
    assert error.startswith("layer 'output/s' (class ")
    assert error.endswith("does not fit 'state' [B, F|output/s:feature-dense(6)].")


def test_an_error_in_search_alone():
    config = options()
    config["network"]["decision"]["from"] = "outputt"
    config["network"]["report"] = {"class": "copy", "from": "decisio", "only_on_search": True, "is_output_layer": True}
    assert errors_of(**config) == [
        "in search: layer 'decision': there is no layer 'outputt'.\n  Did you mean 'output'?",
        "in search: layer 'report': there is no layer 'decisio'.\n  Did you mean 'decision'?",
    ]


def test_frames_of_a_loop_that_are_not_kept():
    config = options()
    config["network"]["loud"] = {"class": "copy", "from": "output/s", "only_on_search": True, "is_output_layer": True}
    assert errors_of(**config) == [
        "in search: layer 'output' (class 'rec'): the frames of 's' are not kept.\n"
        "  Give that layer the option 'is_output_layer': True."
    ]
    config["network"]["output"]["unit"]["s"]["is_output_layer"] = True
    assert errors_of(**config) == []


def test_a_config_for_search_alone():
    config = options()
    del config["train"]
    config["network"]["score"] = {"class": "choice_get_beam_scores", "from": "output", "is_output_layer": True}
    report = check_config(Config(config))
    assert report.errors == []
    assert report.looked_at == ["options", "optimizer", "network for search"]
    config["train"] = DATA
    (error,) = check_config(Config(config)).errors
    assert error.startswith("layer 'score' (class 'choice_get_beam_scores'): the source 'output' [")


def test_a_layer_that_needs_itself():
    config = options()
    config["network"]["keys"]["from"] = "keys"
    assert errors_of(**config) == [
        "layer 'keys' needs itself: 'keys' -> 'keys'.\n  Inside a loop, 'prev:' means the frame before."
    ]


def test_a_broken_function_of_the_config_is_an_error_of_its_layer():
    config = options()

    def out_type(**_kwargs):
        raise KeyError("missing")

    config["network"]["output"] = {"class": "eval", "from": "keys", "eval": "source(0)", "out_type": out_type}
    assert len(errors_of(**config)) == 1
    assert errors_of(**config)[0].startswith("layer 'output'")


def test_default_target_that_is_not_there():
    output = {"class": "softmax", "loss": "ce", "from": "data"}
    config = {"network": {"output": output}, "extern_data": {"data": {"dim": 9}, "labels": {"dim": 2, "sparse": True}}}
    (error,) = [error for error in errors_of(**options(**config), check_data=False) if "layer" in error]
    assert error == (
        "layer 'output' (class 'softmax'): option 'target' is missing, what to compare with. By default, it is"
        " 'classes', which is not in extern_data.\n  Possible: 'data', 'labels', or 'layer:' and the name of a layer."
    )


def test_default_target_inside_of_a_loop():
    config = options(check_data=False)
    del config["network"]["output"]["unit"]["prob"]["target"]
    assert not errors_of(**config)
    config["network"]["output"]["target"] = config["network"]["decision"]["target"] = "labels"
    config["network"]["output"]["unit"]["output"]["target"] = "labels"
    config["extern_data"]["labels"] = config["extern_data"].pop("classes")
    assert any("Possible: 'data', 'labels', or 'layer:'" in error for error in errors_of(**config))


def test_all_sequences_are_looked_at():
    labels = [{"data": [1, 2, 0]}, {"data": [2, 0]}, {"data": [7, 0]}]
    network = {"output": {"class": "softmax", "from": "data", "target": "data", "loss": "ce"}}
    for dim, errors in ((8, 0), (5, 1)):
        data = {"class": "StaticDataset", "data": labels, "output_dim": {"data": (dim, 1)}}
        config = options(network=network, extern_data={"data": {"dim": dim, "sparse": True}}, train=data)
        report = check_config(Config(config))
        assert len(report.errors) == errors
        assert ("data 'train': all 3 sequences" in report.looked_at) == (not errors)
    assert "'seq-2'" in report.errors[0]
    assert "label 7" in report.errors[0]


def decoder_warnings(unit_of_end, last_label):
    labels = [{"data": numpy.zeros((4, 9), "float32"), "classes": [1, last_label]}] * 2
    data = {"class": "StaticDataset", "data": labels, "output_dim": {"data": (9, 2), "classes": (2, 1)}}
    config = options(train=data)
    unit = config["network"]["output"]["unit"]
    unit.pop("end")
    unit.update(unit_of_end)
    vocab = {"class": "Vocabulary", "vocab_file": None, "labels": ["</s>", "a"], "unknown_label": None, "eos_label": 0}
    config["network"]["output"]["include_eos"] = True
    config["extern_data"]["classes"] = {"vocab": vocab}
    report = check_config(Config(config))
    assert not report.errors
    return report.warnings


def test_search_that_never_ends_is_a_warning():
    end = {"end": {"class": "compare", "from": "output", "value": 0}}
    assert not decoder_warnings(end, last_label=0)
    assert decoder_warnings(end, last_label=1) == [
        "layer 'output/end' ends a search at label 0 ('</s>'), but no sequence of 'classes' ends with it "
        "(data 'train': all 2 sequences). All of them end with label 1 ('a'). If that is no end: the option 'seq_postfix' "
        "of its vocabulary puts one there."
    ]
    (warning,) = decoder_warnings({"end": {"class": "compare", "from": "output", "value": 1}}, last_label=0)
    assert warning.endswith("The vocabulary says that label 0 ('</s>') is the end.")
    (warning,) = decoder_warnings({}, last_label=0)
    assert warning.startswith("layer 'output' has no layer 'end', so hypotheses of a search are as long as the target")


def test_a_search_without_limit_is_a_warning():
    end = {"class": "compare", "from": "output", "value": 0}
    unit = {"output": {"class": "choice", "from": "p", "beam_size": 2}, "end": end}
    loop = {"class": "rec", "from": [], "unit": unit}
    (warning,) = unlimited_warnings({"output": loop})
    assert warning.startswith(
        "layer 'output' has no 'max_seq_len', so a search goes on for ever if hypotheses do not end"
    )
    by_number = {"class": "compare", "from": ":i", "value": 9}
    for limited in (
        {"max_seq_len": 10},
        {"max_seq_len_via": "lengths"},
        {"from": "encoder"},
        {"unit": {**unit, "end": by_number}},
        {"unit": {"output": end}},
    ):
        assert not list(unlimited_warnings({"output": {**loop, **limited}}))


def test_a_search_over_the_hypotheses_of_another_one_needs_no_end():
    loop = {"class": "rec", "from": [], "unit": {"output": {"class": "choice", "from": "p", "beam_size": 2}}}
    warnings = {
        target: list(end_warnings({"second": {**loop, "target": target}}, {}, ExternData()))
        for target in ("layer:first", "classes")
    }
    assert not warnings["layer:first"]
    assert len(warnings["classes"]) == 1


@pytest.mark.parametrize("loss", ["ce", "ctc"])
def test_loss_on_what_is_no_probability_is_a_warning(loss):
    output = {"class": "linear", "activation": None, "n_out": 3, "loss": loss, "from": "data", "target": "classes"}
    (warning,) = check_config(Config(options(network={"output": output}, check_data=False))).warnings
    assert warning.startswith("layer 'output' (class 'linear'): the loss takes probabilities, and 'activation' is None")
    logits = {"input_type": "logits"} if loss == "ce" else {"output_in_log_space": True}
    network = {"output": {**output, "loss_opts": logits}}
    assert not check_config(Config(options(network=network, check_data=False))).warnings


SCORES = {"prob": "softmax", "log_prob": "log_softmax", "logits": None}
FITTING = {(kind, kind) for kind in SCORES} | {("logits", "log_prob")}


@pytest.mark.parametrize("reader", ["choice", "ctc_decode", "fast_bw", "forced_align", "ce"])
def test_scores_that_input_type_does_not_name_are_a_warning(reader):
    possible = [kind for kind in SCORES if kind != "logits" or reader not in ("fast_bw", "forced_align")]
    for input_type in possible:
        for kind, activation in SCORES.items():
            scores = {"class": "linear", "activation": activation, "n_out": 3, "from": "data"}
            classes, target = {"dim": 2 if reader == "ctc_decode" else 3, "sparse": True}, {"target": "classes"}
            network = {"scores": scores, "same": {"class": "copy", "from": "scores"}}
            layer = {"class": reader, "from": "same", "input_type": input_type, "is_output_layer": True}
            if reader == "choice":
                choice = {**layer, **target, "beam_size": 2, "initial_output": 0}
                unit = {
                    "scores": {**scores, "from": "prev:output"}, "same": network["same"], "output": choice,
                    "end": {"class": "compare", "from": "output", "value": 0},
                }  # fmt: skip
                network = {"output": {"class": "rec", "from": [], **target, "unit": unit, "max_seq_len": 9}}
            elif reader == "ce":
                network = {"output": {**scores, **target, "loss": "ce", "loss_opts": {"input_type": input_type}}}
            else:
                more = {
                    "ctc_decode": target,
                    "fast_bw": {"align_target": "ctc", "align_target_key": "classes"},
                    "forced_align": {"align_target": "data:classes", "topology": "ctc", "blank_included": True},
                }
                network["output"] = {**layer, **more[reader]}
            extern_data = {"data": {"dim": 9}, "classes": classes}
            report = check_config(Config(options(network=network, extern_data=extern_data, check_data=False)))
            warnings = [text for text in report.warnings if "input_type" in text or "probabilities" in text]
            assert len(warnings) == ((input_type, kind) not in FITTING), (input_type, kind, report.warnings)
            if warnings and (reader, input_type, kind) != ("ce", "prob", "logits"):
                assert f"option 'input_type' is {input_type!r}, but" in warnings[0]
                assert f"'activation' is {activation!r}. " in warnings[0]
                assert f"{kind!r}." in warnings[0] or "Possible: 'log_prob', 'prob'" in warnings[0]


def activation(name):
    return {"class": "activation", "activation": name, "from": "prob"}


def eval_of(expression, **options):
    return {"class": "eval", "from": ["prob", "other"], "eval": expression, **options}


LOGS_OF_PROBABILITIES = [
    (activation("safe_log"), "its 'activation' is 'safe_log', of the probabilities of 'prob'"),
    (activation("log"), "its 'activation' is 'log', of the probabilities of 'prob'"),
    (eval_of("safe_log(source(0))"), "its 'eval' takes the log of probabilities"),
    (eval_of("tf.math.log(source(0) + 1e-10) - 0.5 * source(1)"), "its 'eval' takes the log of probabilities"),
    (eval_of("source(1) + a * safe_log(source(0))", eval_locals={"a": 0.3}), "its 'eval' takes the log of prob"),
    (eval_of("tf.nn.log_softmax(source(1)) + tf.math.log(tf.maximum(source(0), 1e-6))"), "its 'eval' takes the log"),
]
OTHER_SCORES = [  # which may well be probabilities
    activation("safe_exp"),
    {**activation("safe_log"), "from": "other"},
    eval_of("source(0) * source(1)"),
    eval_of("source(0) + source(1)"),
    eval_of("safe_log(source(1))"),
    eval_of("tf.exp(safe_log(source(0)) + 0.3 * safe_log(source(0)))"),
    eval_of("-safe_log(source(0))"),
    eval_of("safe_log(source(0)) * -1"),
    eval_of("source(1) - safe_log(source(0))"),
    eval_of(lambda source, **_: source(0)),
]


def warnings_of_choice(scores, **options_of_choice):
    target = {"target": "classes"}
    softmax = {"class": "softmax", "n_out": 3, "from": "prev:output"}
    other = {"class": "linear", "activation": "relu", "n_out": 3, "from": "prev:output"}
    choice = {"class": "choice", "from": "scores", **target, "beam_size": 2, "initial_output": 0, **options_of_choice}
    end = {"class": "compare", "from": "output", "value": 0}
    unit = {"prob": softmax, "other": other, "scores": scores, "output": choice, "end": end}
    network = {"output": {"class": "rec", "from": [], **target, "unit": unit, "max_seq_len": 9}}
    extern_data = {"data": {"dim": 9}, "classes": {"dim": 3, "sparse": True}}
    report = check_config(Config(options(network=network, extern_data=extern_data, check_data=False)))
    return [text for text in report.warnings if "input_type" in text]


@pytest.mark.parametrize(("scores", "reason"), LOGS_OF_PROBABILITIES)
def test_logs_of_probabilities_that_a_choice_takes_for_probabilities_are_a_warning(scores, reason):
    (warning,) = warnings_of_choice(scores)
    assert f"option 'input_type' is 'prob', but 'scores' has log probabilities, as {reason}" in warning
    assert "Give 'log_prob'." in warning
    assert not warnings_of_choice(scores, input_type="log_prob")
    assert not warnings_of_choice(scores, input_type="logits")


@pytest.mark.parametrize("scores", OTHER_SCORES)
def test_scores_of_which_nothing_is_known_are_no_warning(scores):
    assert not warnings_of_choice(scores)


def test_a_choice_among_other_labels_than_those_of_its_target():
    config = options(check_data=False)
    config["network"]["output"]["unit"]["output"]["from"] = "s"
    (error,) = errors_of(**config)
    assert error.startswith(
        "in search: layer 'output/output' (class 'choice'): the source 's' has scores of 6 labels, but the target "
        "'classes' has 2 labels.\n"
    )


def aligned(num_labels, **more):
    """:return: errors, see `config_of_aligned`"""
    return errors_of(**config_of_aligned(num_labels, **more))


def warnings_of_aligned(num_labels, **more):
    return check_config(Config(config_of_aligned(num_labels, **more))).warnings


def config_of_aligned(num_labels, *, same_dim=False, downsampled=False, **more):
    """:return: a config whose third sequence has 6 frames and so many labels; others fit"""
    lengths = {(4, 4): 0, (5, 5): 1, (6, num_labels): 2, (7, 7): 3}
    seqs = [
        {"data": numpy.zeros((frames, 9), "float32"), "classes": [1] * (-(-labels // 2) if downsampled else labels)}
        for frames, labels in lengths
    ]
    data = {"class": "StaticDataset", "data": seqs, "output_dim": {"data": (9, 2), "classes": (2, 1)}}
    time, own = Dim(None, name="time"), Dim(None, name="own")
    extern_data = {
        "data": {"dims": [batch_dim, time, Dim(9, name="feature")]},
        "classes": {"dims": [batch_dim, time if same_dim else own], "sparse_dim": Dim(2, name="class")},
    }
    network = {
        "slow": {"class": "pool", "mode": "max", "pool_size": [2], "padding": "same", "from": "data"},
        "output": {
            "class": "softmax", "from": "slow" if downsampled else "data", "loss": "ce", "target": "classes",
        },
    }  # fmt: skip
    return {**options(train=data, network=network, extern_data=extern_data), **more}


def test_labels_of_frames_that_are_too_many_or_too_few():
    for kind in ({}, {"same_dim": True}, {"downsampled": True}):
        assert aligned(6, **kind) == []
        for wrong in (4, 8):
            (error,) = aligned(wrong, **kind)
            assert "In the sequence 'seq-2' (all 4 sequences): " in error.replace("in the", "In the")
    (error,) = aligned(8, downsampled=True)
    assert error == (
        "data 'train': layer 'output' (class 'softmax'): loss 'ce': the target 'classes' needs as many labels as the "
        "output has frames. In the sequence 'seq-2' (all 4 sequences): 4 labels; 3 frames."
    )
    assert aligned(8, max_seq_length={"classes": 7}) == []
    assert len(aligned(8, max_seq_length={"classes": 8})) == 1


def test_targets_of_ctc_that_are_too_long():
    ctc = {"class": "softmax", "loss": "ctc", "target": "classes", "n_out": 3}
    network = {"output": {**ctc, "from": "data"}}
    assert aligned(4, network=network, max_seq_length={"classes": 3}) == []
    (error,) = aligned(4, network=network, max_seq_length={"classes": 4})
    assert error.endswith(
        "loss 'ctc': the target 'classes' needs at least as many frames. In the sequence 'seq-0' and 1 other "
        "(all 4 sequences): 4 labels, which need 7 with a blank between two of the same; 4 frames."
    )


OUTPUT = {"class": "softmax", "n_out": 3, "from": "data"}
OF_CTC = {"loss": "ctc", "target": "classes"}
WITHOUT_ERRORS = [
    {"output": {**OUTPUT, **OF_CTC, "loss_opts": {"use_native": True}}},
    {"output": {**OUTPUT, **OF_CTC, "loss_opts": {"use_viterbi": True}}},
    {"output": {**OUTPUT, **OF_CTC, "loss_opts": {"ctc_opts": {"ignore_longer_outputs_than_inputs": True}}}},
    {
        "output": {"class": "linear", "n_out": 3, "activation": None, "from": "data"},
        "ctc": {"class": "ctc_loss", "logits": "output", "targets": "data:classes", "loss": "as_is"},
    },
]


@pytest.mark.parametrize("network", WITHOUT_ERRORS)
def test_targets_of_ctc_that_are_too_long_but_no_error(network):
    assert aligned(4, network=network, max_seq_length={"classes": 4}) == []
    for limit, num_warnings in ((3, 0), (4, 1)):
        warnings = warnings_of_aligned(4, network=network, max_seq_length={"classes": limit})
        assert len([text for text in warnings if "Where there is no alignment, the loss is 0" in text]) == num_warnings
    assert (
        "the target 'classes' needs at least as many frames. In the sequence 'seq-0' and 1 other (all 4 sequences): "
        "4 labels, which need 7 with a blank between two of the same; 4 frames. "
    ) in warnings[-1]


@pytest.mark.parametrize(
    "layer",
    [
        {"class": "forced_align", "align_target": "data:classes", "topology": "ctc"},
        {"class": "forced_align", "align_target": "data:classes", "topology": "rna"},
        {"class": "fast_bw", "align_target": "ctc", "align_target_key": "classes"},
        {"class": "fast_bw", "align_target": "ctc", "align_target_key": "classes", "ctc_opts": {"label_loop": False}},
    ],
)
def test_labels_of_a_layer_of_alignments_that_are_too_long(layer):
    align = {**layer, "from": "output", "input_type": "prob", "is_output_layer": True}
    network = {"output": {**OUTPUT, **OF_CTC, "loss_opts": {"auto_clip_target_len": True}}, "align": align}
    assert aligned(9, network=network) == []
    has_loop = layer.get("topology") != "rna" and "ctc_opts" not in layer
    found = {
        limit: [text for text in warnings_of_aligned(9, network=network, max_seq_length={"classes": limit})
                if f"layer 'align' (class '{layer['class']}'): the target 'classes' needs at least as many" in text]
        for limit in (3, 7, 9)
    }  # fmt: skip
    assert [len(texts) for texts in found.values()] == [0, int(has_loop), 1]
    assert found[9][0].endswith("There the output is no alignment, and its score is -inf: leave these sequences out.")


@pytest.mark.parametrize("options_of_loss", [{"auto_clip_target_len": True}, {"target_collapse_repeated": True}])
def test_targets_of_ctc_that_are_made_shorter(options_of_loss):
    network = {"output": {**OUTPUT, **OF_CTC, "loss_opts": options_of_loss}}
    assert aligned(4, network=network) == []
    assert not any("alignment" in text for text in warnings_of_aligned(4, network=network))


@pytest.mark.parametrize(
    "network",
    [{"output": {"class": "softmax", "loss": "ctc", "target": "classes", "from": "data"}}, *WITHOUT_ERRORS],
)
def test_targets_of_ctc_with_a_label_of_the_end(network, monkeypatch):
    vocab = {"class": "Vocabulary", "vocab_file": None, "labels": ["</s>", "a"], "unknown_label": None, "eos_label": 0}
    for last, num_warnings in ((0, 1), (1, 0)):
        labels = [{"data": numpy.zeros((4, 9), "float32"), "classes": [1, last]}] * 2
        data = {"class": "StaticDataset", "data": labels, "output_dim": {"data": (9, 2), "classes": (2, 1)}}
        config = options(train=data, network=network)
        config["extern_data"]["classes"] = {"vocab": vocab}
        warnings = [text for text in check_config(Config(config)).warnings if "always ends with '</s>'" in text]
        assert all(text.endswith("leave out 'seq_postfix' of its vocabulary.") for text in warnings)
        assert len(warnings) == num_warnings
    monkeypatch.setattr(Vocabulary, "end_option", SentencePieces.end_option)  # without a model of that package
    config["train"]["data"][0]["classes"] = config["train"]["data"][1]["classes"] = [1, 0]
    (warning,) = [text for text in check_config(Config(config)).warnings if "always ends with '</s>'" in text]
    assert warning.endswith("leave out 'add_eos' of its vocabulary.")


@pytest.mark.parametrize("source", ["data:source", "prev:output"])
def test_ctc_in_a_loop_has_a_label_for_each_frame(source):
    unit = {"output": {"class": "softmax", "loss": "ctc", "target": "classes", "n_out": 3, "from": source}}
    for target in (None, "classes"):
        network = {"output": {"class": "rec", "from": "data", "unit": unit, "target": target}}
        (error,) = errors_of(**options(network=network))
        assert error == (
            "layer 'output/output' (class 'softmax'): loss 'ctc': in a loop, the target 'classes' is a label for each "
            "frame, but CTC needs fewer labels than frames.\n"
            "  Put a layer with this loss behind the loop, 'from' the output of the loop."
        )


def test_a_loss_on_sequences_needs_frames():
    network = {
        "mean": {"class": "reduce", "mode": "mean", "axes": "T", "from": "data"},
        "output": {"class": "softmax", "from": "mean", "n_out": 3, "loss": "ctc", "target": "classes"},
    }
    (error,) = errors_of(**options(network=network))
    assert error.startswith("layer 'output' (class 'softmax'): loss 'ctc': ")
    assert error.endswith("has no time dim.")


def test_ctc_needs_a_class_for_blank_and_no_further_dim():
    output = {"class": "softmax", "n_out": 2, "loss": "ctc", "target": "classes"}
    decoder = {"class": "copy", "loss": "edit_distance", "loss_opts": {"ctc_decode": True}, "target": "classes"}
    network = {
        "heads": {"class": "split_dims", "axis": "F", "dims": (3, 3), "from": "data"},
        "few": {**output, "from": "data"},
        "output": {**output, "n_out": 3, "from": "heads"},
        "decoded": {**decoder, "from": "heads"},
    }
    few, output, decoded = errors_of(**options(network=network, check_data=False))
    assert "loss 'ctc': the output has 2 classes, of which 1 is blank, but the target has 2 labels.\n  Either " in few
    for name, error in (("output", output), ("decoded", decoded)):
        assert error.startswith(f"layer {name!r}")
        assert "the output has to be [B, T, F], but it is" in error
        assert "with the further dim heads:split-0(3)." in error


@pytest.mark.parametrize("loss", ["ctc", "edit_distance", "bleu"])
def test_losses_over_labels_need_labels_as_target(loss):
    network = {
        "output": {"class": "softmax", "n_out": 3, "from": "data", "loss": "ce", "target": "classes"},
        "decision": {"class": "ctc_decode", "beam_size": 2, "from": "output", "only_on_search": True},
    }
    network["output" if loss == "ctc" else "decision"].update({"loss": loss, "target": "data"})
    errors = errors_of(
        **options(network=network, search_data="train", search_output_layer="decision", check_data=False)
    )
    assert any(f"loss {loss!r}: the target has to be sparse, not 'data' [B, " in error for error in errors)


def test_attention_weights_over_a_single_entry_are_a_warning():
    config = options(check_data=False)
    decoder = config["network"]["output"]["unit"]
    decoder["weights"]["axis"] = "F"
    (warning,) = check_config(Config(config)).warnings
    assert warning.startswith("layer 'output/weights' (class 'softmax_over_spatial'): a softmax over a single entry is")


def test_softmax_of_a_single_entry_is_a_warning():
    config = options(check_data=False)
    config["network"]["gate"] = {"class": "softmax", "n_out": 1, "from": "data", "is_output_layer": True}
    (warning,) = check_config(Config(config)).warnings
    assert warning.startswith(
        "layer 'gate' (class 'softmax'): a softmax over a single entry is always 1. The activation"
    )


def test_learning_rate_that_nobody_has_set():
    config = options(check_data=False)
    del config["learning_rate"]
    (warning,) = check_config(Config(config)).warnings
    assert warning.startswith("the option 'learning_rate' is not set, so it is 1")


def test_score_of_a_loss_that_no_layer_has():
    warnings = check_config(Config(options(learning_rate_control_error_measure="dev_score_outptu"))).warnings
    assert any("there is no 'outptu' that could have a loss.\n  Did you mean 'output" in text for text in warnings)


@pytest.mark.parametrize("loss_opts", [{}, {"label_smoothing": 0.1}, {"focal_loss_factor": 2.0}, {"use_fused": False}])
def test_losses_in_templates(loss_opts):
    config = options(check_data=False)
    config["network"]["output"]["unit"]["prob"]["loss_opts"] = loss_opts
    config["network"]["aux"] = {"class": "softmax", "from": "encoder", "n_out": 2, "loss": "ce", "loss_opts": loss_opts}
    assert not errors_of(**config)


SHIFT = {"class": "shift_axis", "axis": "T", "amount": 1, "pad_value": 0, "adjust_size_info": False, "from": "data"}
ATTENTION = {"class": "self_attention", "num_heads": 1, "total_key_dim": 4, "n_out": 4, "from": "x"}
LSTM = {"class": "rec", "unit": "lstm", "n_out": 4, "from": "x"}
CONV = {"class": "conv", "filter_size": (3,), "padding": "same", "n_out": 4, "from": "x"}


@pytest.mark.parametrize(
    ("layers", "path"),
    [
        ({"before": SHIFT, "y": LSTM}, None),
        ({"before": SHIFT, "y": {**ATTENTION, "attention_left_only": True}}, None),
        ({"before": {"class": "copy", "from": "data"}, "y": LSTM}, "output <- y <- x <- before <- data"),
        ({"before": SHIFT, "y": ATTENTION}, "output <- y <- x <- before <- data"),
        ({"before": SHIFT, "y": {**LSTM, "direction": -1}}, "output <- y <- x <- before <- data"),
        ({"before": SHIFT, "y": {"class": "copy", "from": ["x", "data"]}}, "output <- y <- data"),
        ({"before": {**SHIFT, "amount": -1}, "y": LSTM}, "output <- y <- x <- before <- data"),
        ({"before": {**SHIFT, "amount": -1}, "y": {"class": "copy", "from": "x"}}, None),
        ({"before": SHIFT, "y": CONV}, "output <- y <- x <- before <- data"),
        ({"before": {**SHIFT, "amount": 2}, "y": CONV}, None),
        ({"before": {**SHIFT, "amount": 2}, "y": {**CONV, "filter_size": [5]}}, "output <- y <- x <- before <- data"),
        ({"before": SHIFT, "y": {**CONV, "filter_size": (2,)}}, None),
        ({"before": SHIFT, "y": {"class": "reduce", "mode": "mean", "axes": "F", "from": "x"}}, None),
    ],
)
def test_a_language_model_that_sees_what_it_predicts(layers, path):
    data = {"class": "StaticDataset", "data": [{"data": [1, 2, 0]}], "output_dim": {"data": (3, 1)}}
    network = {
        **layers,
        "x": {"class": "linear", "activation": None, "n_out": 4, "from": "before"},
        "output": {"class": "softmax", "from": "y", "target": "data", "loss": "ce"},
    }
    config = options(train=data, network=network, extern_data={"data": {"dim": 3, "sparse": True}})
    warnings = [text for text in check_config(Config(config)).warnings if "sees the label" in text]
    assert [text.partition("predicts: ")[2].partition(".")[0] for text in warnings] == ([path] if path else [])


def test_data_that_does_not_fit():
    config = options(extern_data={"data": {"dim": 8}, "classes": {"dim": 2, "sparse": True}})
    (error,) = errors_of(**config)
    assert error == (
        "data 'train': extern_data: 'data' has 8 features, but that of Task12AXDataset 'train' has 9 features.\n"
        "  Data like that is {'data': {\"dim\": 9}} in 'extern_data'."
    )
    assert errors_of(**config, check_data=False) == []


def test_data_with_other_axes():
    config = options(extern_data={"data": {"shape": (None, 1, 9)}, "classes": {"dim": 2, "sparse": True}})
    assert any("a sequence of the dataset has 'data' with the shape [" in error for error in errors_of(**config))


def test_words_that_the_vocabulary_lacks(tmp_path):
    (tmp_path / "text").write_text("a man\na women\n")
    vocab = {"class": "Vocabulary", "vocab_file": None, "labels": ["a", "men"], "unknown_label": None}
    config = options(dev={"class": "LmDataset", "corpus_file": str(tmp_path / "text"), "orth_vocab": vocab})
    assert errors_of(**config)[-1] == (
        "data 'dev': LmDataset 'dev': sequence 'line-0': vocabulary (class 'Vocabulary'): there is no label 'man', and"
        f" no 'unknown_label' is set.\n  Did you mean 'men'?\n  File: {tmp_path}/text, line 1"
    )


def test_data_that_is_not_there():
    for option in ("dev", "search_data", "forward_data"):
        (error,) = errors_of(**options(**{option: {"class": "HDFDataset", "files": ["/nowhere/data.hdf"]}}))
        assert error.count("/nowhere/data.hdf") == 1
    assert errors_of(**options(search_data="train", forward_data="train")) == []
    assert errors_of(**options(search_data="test"))[0].startswith("option 'search_data': there is no data 'test'.")


def test_unused_layers_are_a_warning():
    config = options()
    config["network"]["never"] = {"class": "copy", "from": "data"}
    config["network"]["by_code"] = {"class": "copy", "from": "data"}
    code = "self.network.get_layer('by_code').output.placeholder"
    config["network"]["code"] = {"class": "eval", "from": "keys", "eval": code, "is_output_layer": True}
    config["network"]["in_branch"] = {"class": "copy", "from": "data"}
    branch = {
        "output": {"class": "dropout", "from": "data"},
        "used": {"class": "copy", "from": "base:in_branch", "is_output_layer": True},
    }
    config["network"]["cond"] = {
        "class": "cond", "from": [], "condition": {"class": "train_flag"}, "false_layer": "keys", "is_output_layer": True,
        "true_layer": {"class": "subnetwork", "from": "keys", "subnetwork": branch},
    }  # fmt: skip
    report = check_config(Config(config))
    assert report.errors == []
    assert report.warnings == ["layers that nothing uses: never"]


def test_each_network_of_a_pretraining_is_checked():
    def get_network(epoch):
        net = copy.deepcopy(NETWORK)
        net["keys"]["n_out" if epoch != 3 else "n_outt"] = net["keys"].pop("n_out")
        net["encoder"]["n_out"] += epoch > 4
        return net

    config = options(get_network=get_network, num_epochs=6)
    del config["network"]
    report = check_config(Config(config))
    assert [name for name in report.looked_at if "training" in name] == [
        f"network of epoch {epoch} for training" for epoch in (1, 3, 4, 5)
    ]
    assert report.errors == [
        "layer 'keys' (class 'linear'): there is no option 'n_outt'.\n  Did you mean 'n_out' or 'initial_output'?"
    ]


def test_a_change_in_the_last_epoch_is_found():
    config = options(
        get_network=lambda epoch: {**NETWORK, "output": NETWORK["keys" if epoch < 95 else "output"]}, num_epochs=95
    )
    del config["network"]
    looked_at = check_config(Config(config)).looked_at
    assert [name for name in looked_at if "training" in name] == [
        f"network of epoch {epoch} for training" for epoch in (1, 95)
    ]


# The command line.

# ruff: noqa: E501 (a table)
TABLE = """\
network for training
  layer             class                 output                         parameters  in the loop
  encoder           rec                   [time:data, B, 8]                     576
  keys              linear                [time:data, B, 7]                      63
  output            rec                   [time:classes, B] of 2 labels
  output/output     choice                [B] of 2 labels                            before: uses nothing of the loop
  output/emb        linear                [B, 4]                                 12  before: uses only prev:output
  output/s          rnn_cell              [B, 6]                                456  inside: depends on its own past, by 'prev:att'
  output/query      linear                [B, 7]                                 49  inside: 'energy_in' needs it
  output/energy_in  combine               [time:data, B, 7]                          inside: 'energy' needs it
  output/energy     linear                [time:data, B, 1]                       8  inside: 'weights' needs it
  output/weights    softmax_over_spatial  [time:data, B, 1]                          inside: 'att' needs it
  output/att        generic_attention     [B, 8]                                     inside: 's' needs it
  output/prob       softmax               [B, 2]                                 30  after: nothing in the loop needs it
  12 layers, 1,194 parameters
"""


def run(tmp_path, text, *args):
    path = tmp_path / "my.config"
    path.write_text(f"#!rnn.py\n{text}\n", encoding="utf8")
    return rnn.main(["rnn.py", str(path), "++task", "check", *args])


def test_table_and_exit_status(tmp_path, capsys):
    assert run(tmp_path, "\n".join(f"{key} = {value!r}" for key, value in options().items())) == 0
    out, err = capsys.readouterr()
    assert err == ""
    table, search = out[out.index("network for training") : out.index("looked at")].split("network for search")
    assert table == TABLE
    assert search.startswith(": what is different there\n")
    assert "output/prob       softmax               [B, beam(3), 2] " in search
    assert "encoder   " not in search
    assert "looked at: options, optimizer, network for training, network for search, data 'train': all " in out
    assert out.endswith("no errors\n")


def test_warnings_are_counted(tmp_path, capsys):
    text = "\n".join(f"{key} = {value!r}" for key, value in options(nobody_reads_this=1).items())
    assert run(tmp_path, text) == 0
    assert capsys.readouterr().out.endswith("\nno errors, 1 warning, see above\n")


def test_a_layer_class_of_a_user(tmp_path, capsys):
    text = """
from returnn.tf.layers.core.layer_base import LayerBase

class MyLayer(LayerBase):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.output.placeholder = self.sources[0].output.placeholder * 2

network = {"mine": {"class": MyLayer, "from": "data"}, "output": {"class": "linear", "from": "mine", "n_out": 3}}
extern_data = {"data": {"dim": 9}}
"""
    assert run(tmp_path, text) == 0
    out = capsys.readouterr().out
    assert "  mine    MyLayer  [B, time:data, 9]\n" in out
    assert "2 layers, 30 parameters; what MyLayer may have is not known before there is a graph\n" in out


def test_errors_and_exit_status(tmp_path, capsys):
    config = options()
    config["network"]["keys"]["n_outt"] = 3
    text = "\n".join(f"{key} = {value!r}" for key, value in config.items())
    assert run(tmp_path, text, "++batch_sizee", "5") == 1
    out, err = capsys.readouterr()
    assert err == "error: the check found 2 errors, see above.\n"
    assert out.count("Did you mean") == 2


def test_the_result_is_on_the_terminal_if_the_log_is_in_a_file(tmp_path, capsys):
    config = options(log=[str(tmp_path / "check.log")], abc=1)
    text = "\n".join(f"{key} = {value!r}" for key, value in config.items())
    assert run(tmp_path, text) == 0
    out, _ = capsys.readouterr()
    assert out.startswith("looked at: options, ")
    assert out.endswith(f"\nno errors, 1 warning, see '{tmp_path}/check.log'\n")
    assert run(tmp_path, text, "++batch_sizee", "5") == 1
    out, err = capsys.readouterr()
    assert "\n1. config: there is no option 'batch_sizee'. Did you mean 'batch_size'?\n" in out
    assert err == "error: the check found 1 error, see above.\n"
    assert "1. config: there is no option 'batch_sizee'." in (tmp_path / "check.log").read_text()


def test_table_in_a_terminal():
    report = inspect_network(NETWORK, Config(options()), title="network")
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=200, color_system="standard")
    print_table(report, report.rows, "network", console)
    text = stream.getvalue()
    assert "[time:data, B, 8]" in text  # and not markup
    assert "\x1b[33minside: depends on its own past, by 'prev:att'" in text
    assert "12 layers, 1,194 parameters" in text


def test_what_a_run_would_only_say_later():
    wrong = {"search_metrics": ["WER"], "search_output_file_format": "jsn", "device": "cdua"}
    assert [error.partition("\n")[0] for error in check_config(Config(options(**wrong))).errors] == [
        "option 'device': TensorFlow has no 'cdua'.",
        "option 'search_metrics': there is no metric 'WER'.",
        "option 'search_output_file_format': there is no format 'jsn'.",
    ]


def test_no_data_to_train_on():
    given = options(trian=DATA, num_epochs=2)
    del given["train"]
    report = check_config(Config(given))
    assert report.warnings == ["there is no 'train', the data to train on."]
    assert report.errors == ["config: there is no option 'trian'. Did you mean 'train'?"]


SELF_ATTENTION = {
    "query": {"class": "linear", "activation": None, "n_out": 4, "from": "data"},
    "key": {"class": "reinterpret_data", "from": "query", "set_dim_tags": {"T": KEY_DIM}},
    "energy": {"class": "dot", "from": ["query", "key"], "reduce": "F"},
    "weights": {"class": "softmax_over_spatial", "from": "energy", "axis": "stag:key"},
    "dropped": {"class": "dropout", "from": "weights", "dropout": 0.1},
    "att": {"class": "dot", "from": ["dropped", "key"], "reduce": "stag:key"},
    "output": {"class": "softmax", "from": "att", "target": "classes", "loss": "ce"},
}


@pytest.mark.parametrize(("axis", "reduce"), [("stag:key", "stag:key"), ("T", "stag:key"), ("stag:key", "T")])
def test_weights_that_are_summed_over_another_dim_than_that_of_their_softmax(axis, reduce):
    net = copy.deepcopy(SELF_ATTENTION)
    net["weights"]["axis"], net["att"]["reduce"] = axis, reduce
    warnings = check_config(Config(options(check_data=False, network=net))).warnings
    assert len(warnings) == (axis != reduce)
    if warnings:
        dims = ("time:data[B]", "key[B]") if axis == "T" else ("key[B]", "time:data[B]")
        assert warnings[0].startswith(
            f"layer 'att' (class 'dot'): sums over {dims[1]}, but the weights 'weights' are a"
        )
        assert f"softmax over {dims[0]}" in warnings[0]


def test_attention_whose_weights_are_summed_over_another_dim():
    net = copy.deepcopy(SELF_ATTENTION)
    net["weights"]["axis"] = "T"
    net["att"] = {"class": "generic_attention", "weights": "dropped", "base": "key"}
    (warning,) = check_config(Config(options(check_data=False, network=net))).warnings
    assert warning.startswith("layer 'att' (class 'generic_attention'): sums over key[B]")


def test_sums_over_dims_of_which_one_has_another_size_in_each_batch():
    net = copy.deepcopy(SELF_ATTENTION)
    net["energy"] = {"class": "dot", "from": ["query", "key"], "red1": "T", "red2": "F", "var1": "F", "var2": "T"}
    net["weights"]["axis"] = "F"
    net["att"] = {"class": "reduce", "mode": "mean", "axis": "F", "from": "dropped"}
    warnings = check_config(Config(options(check_data=False, network=net))).warnings
    assert any(
        text.startswith("layer 'energy' (class 'dot'): sums over time:data[B], which has a size of its own in each")
        and text.endswith("Options: 'red1' and 'red2'.")
        for text in warnings
    )


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        ("max_len_from('base:encoder') + 1", None),
        ("max_len_from('encoder')", None),
        ("(lambda n: [k for k in [n]][0])(max_len_from('encoder'))", None),
        ("max_len_from('base:encodr')", "there is no layer 'encodr'.\n  Did you mean 'encoder'?"),
        ("max_len_from('weights')", "There is one inside of 'output': 'output/weights'."),
        ("maxlen_from('encoder')", "option 'max_seq_len': \"maxlen_from('encoder')\": name 'maxlen_from' is not"),
        ("max_len_from('encoder'", "was never closed"),
    ],
)
def test_limits_of_a_search(limit, text):
    config = options(check_data=False)
    config["network"]["output"]["max_seq_len"] = limit
    report = check_config(Config(config))
    assert len(report.errors) == (text is not None)
    assert not text or text in report.errors[0]


@pytest.mark.parametrize(
    ("limit", "longer"),
    [
        (3, "2 of 'train' (all 3 sequences), the longest by 3"),
        (6, None),
        ("max_len_from('base:encoder')", "2 of 'train' (all 3 sequences), the longest by 1"),
        ("tf.minimum(2 * max_len_from('encoder'), 5)", "1 of 'train' (all 3 sequences), the longest by 1"),
        ("tf.maximum(2 * max_len_from('encoder'), 5)", None),
        ("max_len_from('encoder') + 'a'", None),  # a run says so
    ],
)
def test_targets_that_are_longer_than_the_limit_of_a_search(limit, longer):
    seqs = [
        {"data": numpy.zeros((n, 9), "float32"), "classes": [1] * (k - 1) + [0]} for n, k in ((2, 3), (5, 6), (9, 5))
    ]
    data = {"class": "StaticDataset", "data": seqs, "output_dim": {"data": (9, 2), "classes": (2, 1)}}
    config = options(train=data, behavior_version=30)
    config["network"]["output"].update(max_seq_len=limit)
    config["network"]["encoder"]["unit"] = "lstm"
    report = check_config(Config(config))
    assert not report.errors
    warnings = [text for text in report.warnings if "longer" in text]
    assert warnings == [
        f"layer 'output' (class 'rec'): option 'max_seq_len': {limit!r}: targets 'classes' that are longer: {longer}."
        " A search cannot find them."
    ] * bool(longer)


def test_a_search_that_knows_the_length_of_what_it_should_find():
    config = options(check_data=False)
    config["network"]["output"]["max_seq_len"] = "max_len_from('data:classes')"
    (warning,) = check_config(Config(config)).warnings
    assert warning.startswith("layer 'output' (class 'rec'): option 'max_seq_len': 'data:classes' is what the search")


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("source(0) + 0.5 * source(1)", None),
        ("source(0) + sum(source(i) for i in range(2))", None),
        ("source(0) + source(2)", "there is no source(2), as there are 2 sources, from 0 on."),
        ("source(0) + 0.5 source(1)", "option 'eval': 'source(0) + 0.5 source(1)': "),
    ],
)
def test_expressions_that_are_not_run(expression, text):
    layer = {"class": "eval", "eval": expression, "from": ["data", "data"], "is_output_layer": True}
    config = options(check_data=False, network={**copy.deepcopy(NETWORK), "own": layer})
    errors = check_config(Config(config)).errors
    assert len(errors) == (text is not None)
    assert not text or text in errors[0]


def preloading(folder, **options):
    """:return: errors of a config that begins with parameters of a file"""
    file = {"filename": str(folder / "net.001"), "init_for_train": True, **options}
    more = {"model": str(folder / "net"), "preload_from_files": {"old": file}, "check_data": False}
    return check_config(Config(config_of_preloading(**more))).errors


def config_of_preloading(**more):
    network = {
        "hidden": {"class": "linear", "activation": "tanh", "n_out": 4, "from": "data"},
        "scale": {"class": "variable", "shape": [4], "non_critical_for_restore": True},
        "scaled": {"class": "combine", "kind": "mul", "from": ["hidden", "scale"]},
        "output": {"class": "softmax", "from": "scaled", "target": "classes", "loss": "ce"},
    }
    return options(network=network, **more)


def test_files_to_preload_are_about_the_same_labels(tmp_path, caplog):
    values = {"hidden/W": (9, 4), "hidden/b": (4,), "output/W": (4, 2), "output/b": (2,)}
    write_checkpoint({name: numpy.ones(shape, "float32") for name, shape in values.items()}, str(tmp_path / "old.001"))
    for labels in (["a", "b"], ["b", "a"]):
        vocab = {"class": "Vocabulary", "vocab_file": None, "labels": labels, "unknown_label": None}
        file = {"filename": str(tmp_path / "old.001"), "init_for_train": True}
        extern_data = {"data": {"dim": 9}, "classes": {"vocab": vocab}}
        more = {"model": str(tmp_path / "net"), "preload_from_files": {"old": file}, "check_data": False}
        config = Config({**config_of_preloading(**more), "extern_data": extern_data})
        if labels == ["a", "b"]:
            then = labels_of_config(config)
            KnownData(str(tmp_path / "old")).compare({}, is_resumed=False, may_change=False, labels=then)
        caplog.clear()
        assert check_config(config).errors == []
        said = "So the values of 'output/W', 'output/b' are about other labels." in caplog.text
        assert said == (labels == ["b", "a"])


def test_files_to_preload_are_there_and_fit(tmp_path):
    (error,) = preloading(tmp_path)
    assert error.startswith(f"option 'preload_from_files': 'old': checkpoint '{tmp_path}/net.001' does not exist.")
    values = {"hidden/W": (9, 4), "hidden/b": (4,), "output/W": (4, 3), "output/b": (3,)}
    write_checkpoint({name: numpy.ones(shape, "float32") for name, shape in values.items()}, str(tmp_path / "net.001"))
    assert preloading(tmp_path, filename=str(tmp_path / "net.001")) == []  # a training that goes on does not load it
    (tmp_path / "old").mkdir()
    for file in tmp_path.glob("net.001.*"):
        file.rename(tmp_path / "old" / file.name)
    file = str(tmp_path / "old" / "net.001")
    (error,) = preloading(tmp_path, filename=file)
    assert "'output/W' has the shape [4, 2] in the model, but [4, 3] in the file" in error
    assert error.endswith("'ignore_params': ['output/W', 'output/b']")
    assert preloading(tmp_path, filename=file, ignore_params=["output/W", "output/b"]) == []
    (error,) = preloading(tmp_path, filename=file, var_name_mapping={"output/W": "out/W"})
    assert "1 of 5 parameters are not in it: 'out/W'." in error
    assert "'output/b' has the shape" in error


@pytest.mark.parametrize("layer", ["loss", "layer", "fast_bw", "forced_align"])
@pytest.mark.parametrize(
    ("blank", "labels", "warns"), [(0, [1, 2, 1], False), (0, [1, 0, 2], True), (2, [1, 1], False)]
)
def test_blank_that_targets_have_as_a_label(layer, blank, labels, warns):
    seqs = [{"data": numpy.zeros((9, 9), "float32"), "classes": labels}]
    data = {"class": "StaticDataset", "data": seqs, "output_dim": {"data": (9, 2), "classes": (3, 1)}}
    ctc = {"use_native": True, "ctc_opts": {"blank_index": blank}}
    align = {"from": "log", "align_target_key": "classes", "ctc_opts": {"blank_idx": blank}, "is_output_layer": True}
    forced = {"from": "log", "align_target": "data:classes", "topology": "ctc", "input_type": "log_prob"}
    of_loss = {"loss": "ctc", "target": "classes", "loss_opts": ctc} if layer == "loss" else {}
    network = {
        "output": {"class": "softmax", "n_out": 3, "from": "data", **of_loss},
        "log": {"class": "activation", "activation": "safe_log", "from": "output"},
        "layer": {"class": "ctc_loss", "logits": "log", "targets": "data:classes", "blank_index": blank, "loss": "as_is"},
        "fast_bw": {"class": "fast_bw", "align_target": "ctc", **align},
        "forced_align": {
            "class": "forced_align", **forced, "blank_idx": blank, "blank_included": True, "is_output_layer": True
        },
        "mse": {"class": "linear", "n_out": 9, "from": "data", "loss": "mse", "target": "data"},
    }  # fmt: skip
    kept = {"output", "log", "mse", layer}
    network = {name: options for name, options in network.items() if name in kept}
    extern_data = {"data": {"dim": 9}, "classes": {"dim": 3, "sparse": True}}
    report = check_config(Config(options(network=network, train=data, extern_data=extern_data)))
    assert not report.errors
    text = "label 0 of the target 'classes' is blank, but data 'train' has it, first in 'seq-0'. A label is the class"
    assert sum(text in warning for warning in report.warnings) == warns


@pytest.mark.parametrize("layer", ["loss", "layer", "forced_align"])
@pytest.mark.parametrize("blank", [0, 3, -1])
def test_class_that_is_neither_label_nor_blank(layer, blank, caplog):
    forget_shown()
    ctc = {"use_native": True, "ctc_opts": {"blank_index": blank}}
    forced = {"from": "log", "align_target": "data:classes", "topology": "ctc", "input_type": "log_prob"}
    of_loss = {"loss": "ctc", "target": "classes", "loss_opts": ctc} if layer == "loss" else {}
    network = {
        "output": {"class": "softmax", "n_out": 4, "from": "data", **of_loss},
        "log": {"class": "activation", "activation": "safe_log", "from": "output"},
        "layer": {
            "class": "ctc_loss",
            "logits": "log",
            "targets": "data:classes",
            "blank_index": blank,
            "loss": "as_is",
        },
        "forced_align": {"class": "forced_align", **forced, "blank_idx": blank, "is_output_layer": True},
        "mse": {"class": "linear", "n_out": 9, "from": "data", "loss": "mse", "target": "data"},
    }
    network = {name: options for name, options in network.items() if name in {"output", "log", "mse", layer}}
    extern_data = {"data": {"dim": 9}, "classes": {"dim": 3, "sparse": True}}
    assert not errors_of(network=network, extern_data=extern_data, check_data=False)
    text = "has 4 classes, of which 0 is blank, but the target has 3 labels.\n  A label is the class of the same index"
    assert (text in caplog.text) is (blank == 0)
