"""What goes wrong without an error of TensorFlow or Python is said, with the numbers and with what to do."""

import ast

import numpy
import pytest
import tensorflow as tf

from returnn.config import Config
from returnn.datasets import init_dataset
from returnn.log import log
from returnn.tf.engine import tasks
from returnn.tf.inspection.config_check import check_config
from returnn.tf.network import ExternData, TFNetwork
from returnn.util.errors import ConfigError
from returnn.util.system.warn_once import forget_shown
from tests.tf.engine.small_config import config
from tests.tf.engine.test_tasks import DECODER, DEV, task_config

NO_LOSS = {"output": {"class": "softmax", "from": "data", "n_out": 2}}


@pytest.fixture(autouse=True)
def fresh(capsys):
    forget_shown()
    log.initialize(verbosity=[5])
    yield
    tf.compat.v1.reset_default_graph()


def test_gpu_where_there_is_none(tmp_path, monkeypatch):
    if tf.config.list_physical_devices("GPU"):
        pytest.skip("there is one")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(ConfigError) as info:
        tasks.train(config(tmp_path, device="gpu"))
    assert f"option 'device': 'gpu' is asked for, but TensorFlow {tf.__version__} finds no GPU." in str(info.value)
    assert "Found by nvidia-smi: none. CUDA_VISIBLE_DEVICES is ''." in str(info.value)
    tasks.train(config(tmp_path, device="cpu"))


@pytest.mark.parametrize("size", [1, 70])
def test_batch_size_with_room_for_one_sequence(size, tmp_path, capsys):
    tasks.train(config(tmp_path, batch_size=size))
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "the first 10 sequences" in line]
    assert line.startswith(f"WARNING: batch_size is {size} frames, but the first 10 sequences have ")
    assert (": none of them fits, so each" in line) == (size == 1)
    assert line.endswith("0.")
    forget_shown()
    tasks.train(config(tmp_path, batch_size=size, max_seqs=1, num_epochs=2))
    tasks.train(config(tmp_path, batch_size=500, num_epochs=3))
    assert "the first 10 sequences" not in capsys.readouterr().out


def test_network_without_loss(tmp_path):
    for run, purpose in [(tasks.train, "training"), (tasks.evaluate, "task 'eval'")]:
        with pytest.raises(ConfigError) as info:
            run(task_config(tmp_path, "train" if run is tasks.train else "eval", network=NO_LOSS))
        assert str(info.value).startswith(f"{purpose}: no layer has a loss.\n  Add 'loss' and 'target' to a layer")
    options = {"extern_data": {"data": {"dim": 9}}, "network": NO_LOSS, "behavior_version": 30}
    assert check_config(Config(options)).errors == []  # nothing is trained
    (error,) = check_config(Config({**options, "train": DEV, "check_data": False})).errors
    assert error.startswith("training: no layer has a loss.\n  Add 'loss' and 'target' to a layer")


def test_losses_in_a_layer_that_nothing_needs(tmp_path):
    label = {"class": "softmax", "from": "data:source", "loss": "ce", "target": "classes"}
    unit = {"label": label, "output": {"class": "copy", "from": "label"}}
    network = {**NO_LOSS, "loop": {"class": "rec", "from": "data", "unit": unit}}
    text = (
        "training: no layer that is made has a loss. Nothing needs these, which have one: 'loop/label'.\n"
        "  Call 'loop' \"output\", or give it 'is_output_layer': True."
    )
    options = task_config(tmp_path, "train", network=network)
    with pytest.raises(ConfigError) as info:
        tasks.train(options)
    assert str(info.value) == text
    assert check_config(options).errors == [text]
    network["loop"]["is_output_layer"] = True
    tasks.train(task_config(tmp_path, "train", network=network))


def test_loss_without_its_target():
    network = {"output": {"class": "softmax", "n_out": 3, "from": "data", "loss": "ce"}}
    extern_data = {"data": {"dim": 9}, "labels": {"dim": 3, "sparse": True}}
    options = {"extern_data": extern_data, "network": network, "train": DEV, "behavior_version": 30}
    assert check_config(Config({**options, "check_data": False})).errors == [
        "layer 'output' (class 'softmax'): option 'target' is missing, what to compare with. By default, it is"
        " 'classes', which is not in extern_data.\n  Possible: 'data', 'labels', or 'layer:' and the name of a layer."
    ]


@pytest.mark.parametrize("target", ["lables", "data:labels"])
@pytest.mark.parametrize("is_in_loop", [False, True])
def test_target_that_nobody_knows(target, is_in_loop):
    softmax = {"class": "softmax", "n_out": 3, "from": "data:source" if is_in_loop else "data", "loss": "ce"}
    layers = {"output": {**softmax, "target": "labels"}, "more": {**softmax, "target": target}}
    network = {"output": {"class": "rec", "from": "data", "unit": layers}} if is_in_loop else layers
    extern_data = {"data": {"dim": 9}, "labels": {"dim": 3, "sparse": True}}
    options = {"extern_data": extern_data, "network": network, "behavior_version": 30, "check_data": False}
    error = (
        f"layer '{'output/' if is_in_loop else ''}more' (class 'softmax'): the 'target' '{target}' of the loss is not"
        " in extern_data.\n  Did you mean 'labels'? A layer of the network would be 'layer:' and its name."
    )
    assert check_config(Config({**options, "dev": DEV})).errors == [error]
    assert check_config(Config({**options, "forward_data": DEV})).errors == []  # computes no loss
    for flags in ({"train_flag": True}, {"eval_flag": True}):
        with tf.Graph().as_default():
            net = TFNetwork(config=Config(options), extern_data=ExternData(extern_data), **flags)
            with pytest.raises(ConfigError) as info:
                net.construct_from_dict(network)
        assert str(info.value) == error
    for flags in ({"train_flag": False}, {"eval_flag": True, "search_flag": True, "train_flag": False}):
        with tf.Graph().as_default():
            net = TFNetwork(config=Config(options), extern_data=ExternData(extern_data), **flags)
            net.construct_from_dict(network)


def test_target_of_a_layer_that_needs_the_layer_with_the_loss():
    network = {
        "output": {"class": "softmax", "n_out": 3, "from": "data", "loss": "ce", "target": "best"},
        "best": {"class": "copy", "from": "labels", "register_as_extern_data": "best"},
        "labels": {"class": "reduce", "mode": "argmax", "axis": "F", "from": "output"},
    }
    options = {"extern_data": {"data": {"dim": 9}}, "network": network, "train": DEV, "behavior_version": 30}
    for first in network:  # whichever is made first
        net_dict = {first: network[first], **network}
        assert check_config(Config({**options, "check_data": False, "network": net_dict})).errors == []
        with tf.Graph().as_default():
            net = TFNetwork(config=Config(options), extern_data=ExternData(options["extern_data"]), train_flag=True)
            net.construct_from_dict(net_dict)
            net.maybe_construct_objective()
            assert [*net.losses_dict] == ["output"]


def test_other_network_than_in_the_training(tmp_path, capsys):
    network = config(tmp_path).typed_dict["network"]
    three = {**network, "output": {**network["output"], "from": "more"}}
    three["more"] = {"class": "linear", "activation": "relu", "n_out": 3, "from": "hidden"}
    tasks.train(config(tmp_path, network=three))
    tasks.evaluate(config(tmp_path, task="eval", network=three, dev=DEV))
    assert "another network" not in capsys.readouterr().out
    network = {**network, "hidden": {**network["hidden"], "activation": "relu"}}
    tasks.evaluate(config(tmp_path, task="eval", network=network, dev=DEV))
    warnings = [line for line in capsys.readouterr().out.splitlines() if "another network" in line]
    where = "WARNING: this model was trained with another network: layer"
    effect = "So its outputs are not those of the training."
    assert warnings == [
        f"{where} 'hidden' (class 'linear'): option 'activation': was 'tanh', and is 'relu'. {effect}",
        f"{where} 'output' (class 'softmax'): option 'from': was ['more'], and is ['hidden']. There is no layer 'more' "
        f"now, which has trained parameters. {effect}",
    ]
    forget_shown()
    tasks.train(config(tmp_path, network={**three, "hidden": network["hidden"]}, num_epochs=2))  # goes on
    assert warnings[0] in capsys.readouterr().out
    tasks.evaluate(config(tmp_path, task="eval", network={**three, "hidden": network["hidden"]}, dev=DEV))
    assert "another network" not in capsys.readouterr().out


@pytest.mark.parametrize("seq_ordering", ["sorted_reverse", "random"])
def test_hypotheses_are_in_the_order_of_the_corpus(seq_ordering, tmp_path, capsys):
    files = []
    for ordering in ("default", seq_ordering):
        data = {**DEV, "seq_ordering": ordering, "num_seqs": 25}
        files.append(tmp_path / ordering)
        options = {"search_data": data, "search_output_file": str(files[-1]), "search_output_file_format": "tagged"}
        options["search_output_layer"] = "decision"
        tasks.search_task(task_config(tmp_path, "search", network=DECODER, random_seed=3, **options))
        assert f"search: wrote {str(files[-1])!r}, in the order of the corpus" in capsys.readouterr().out
    tags = [[line.split()[0] for line in file.read_text().splitlines()] for file in files]
    assert tags[0] == tags[1] == [f"seq-{i}" for i in range(25)]


@pytest.mark.parametrize("with_beam", [True, False])
def test_sequences_without_frames_have_empty_hypotheses(with_beam, tmp_path, capsys):
    seqs = [{"data": numpy.ones((n, 9), "float32"), "classes": numpy.array([0] * 3)} for n in (4, 0, 5, 0)]
    data = {"class": "StaticDataset", "data": seqs, "output_dim": {"data": (9, 2), "classes": (2, 1)}}
    options = {"search_data": data, "search_output_file": str(tmp_path / "found"), "search_output_file_format": "py"}
    options["search_output_layer"] = "output" if with_beam else "decision"
    extern_data = {"data": {"dim": 9}, "classes": {"vocab": {"vocab_file": None, "labels": ["a", "b"]}}}
    extern_data["classes"]["vocab"]["unknown_label"] = None
    tasks.search_task(
        task_config(tmp_path, "search", network=DECODER, extern_data=extern_data, search_metrics=["wer"], **options)
    )
    out = capsys.readouterr().out
    assert "WARNING: search: 2 sequences without frames, such as 'seq-1': their hypotheses are empty, too." in out
    found = ast.literal_eval((tmp_path / "found").read_text())
    assert list(found) == [f"seq-{i}" for i in range(4)]
    assert found["seq-1"] == found["seq-3"] == ([(0.0, "")] if with_beam else "")
    assert not with_beam or found["seq-0"] != found["seq-1"]
    assert "; 12 words)" in out


@pytest.mark.parametrize(
    "network",
    [
        {"output": {"class": "softmax", "from": "data", "loss": "ctc", "loss_opts": {"use_native": True}}},
        {
            "logits": {"class": "linear", "activation": None, "from": "data", "n_out": 3},
            "output": {"class": "ctc_loss", "logits": "logits", "targets": "data:classes", "loss": "as_is"},
        },
    ],
)
def test_sequences_without_an_alignment_are_counted(network, tmp_path, capsys):
    lengths = [(4, [0, 1]), (4, [0, 0]), (2, [0, 0]), (2, [0, 1, 0]), (5, [1, 1, 1])]
    seqs = [{"data": numpy.zeros((frames, 2), "float32"), "classes": labels} for frames, labels in lengths]
    data = {"class": "StaticDataset", "data": seqs, "output_dim": {"data": (2, 2), "classes": (2, 1)}}
    extern_data = {"data": {"dim": 2}, "classes": {"dim": 2, "sparse": True}}
    options = {"train": data, "dev": {**data, "data": seqs[:2]}, "extern_data": extern_data, "behavior_version": 30}
    tasks.train(config(tmp_path, network=network, max_seqs=2, **options))
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "alignment" in line]
    assert line.startswith("train epoch 1: 2 of 5 sequences without an alignment in layer 'output': their loss is 0")


ALIGN = {"class": "forced_align", "from": "output", "align_target": "data:classes", "topology": "ctc"}
BAUM_WELCH = {"class": "fast_bw", "from": "output", "align_target": "ctc", "align_target_key": "classes"}


@pytest.mark.parametrize("layer", [ALIGN, BAUM_WELCH])
def test_sequences_that_a_layer_has_no_alignment_for_are_named(layer, tmp_path, capsys):
    lengths = [(4, [0, 1]), (4, [0, 0]), (2, [0, 0]), (2, [0, 1, 0]), (5, [1, 1, 1])]
    seqs = [{"data": numpy.zeros((frames, 2), "float32"), "classes": labels} for frames, labels in lengths]
    data = {"class": "StaticDataset", "data": seqs, "output_dim": {"data": (2, 2), "classes": (2, 1)}}
    loss = {"loss": "ctc", "target": "classes", "loss_opts": {"use_native": True}}
    network = {
        "output": {"class": "softmax", "from": "data", "n_out": 3, **loss},
        "align": {**layer, "input_type": "prob", "is_output_layer": True},
    }
    options = {"train": data, "dev": {**data, "data": seqs[:2]}, "max_seqs": 2, "behavior_version": 30}
    options |= {"extern_data": {"data": {"dim": 2}, "classes": {"dim": 2, "sparse": True}}, "network": network}
    options |= {"search_data": "train", "search_output_layer": "align", "forward_data": "train"}
    options |= {"output_file": str(tmp_path / "out.hdf"), "forward_override_hdf_output": True}

    def said():
        forget_shown()
        return [line for line in capsys.readouterr().out.splitlines() if "Its output is no" in line]

    tasks.train(config(tmp_path, **options))
    assert said() == []  # it computes the loss alone
    text = "2 of 5 sequences without an alignment in layer 'align', such as 'seq-2': the labels need more frames, or "
    text += "have scores of -inf. Its output is no alignment there."
    for name in ["align", *(["align/scores"] if layer is ALIGN else [])]:
        tasks.forward(config(tmp_path, task="forward", forward_output_layer=name, **options))
        assert said() == [f"WARNING: forward: {text}"]
    tasks.forward(config(tmp_path, task="forward", **options))
    assert said() == []
    tasks.analyze(config(tmp_path, task="analyze", analyze_dataset="train", **options))
    assert said() == [f"WARNING: forward: {text}"]
    if layer is ALIGN:
        tasks.search_task(config(tmp_path, task="search", **options))
        assert said() == [f"WARNING: search: {text}"]
    network["frames"] = {"class": "softmax", "from": "data", "loss": "ce", "target": "layer:align", "n_out": 3}
    if layer is ALIGN:
        tasks.train(config(tmp_path, **options, model=str(tmp_path / "of_frames")))
        assert said() == [f"WARNING: train epoch 1: {text}"]


def test_sequences_that_are_left_out_are_counted(tmp_path, capsys):
    data = {**DEV, "num_seqs": 25}
    dataset = init_dataset(data)
    dataset.init_seq_order(epoch=1)
    lengths = [dataset.get_seq_length(i)["data"] for i in range(25) if dataset.is_less_than_num_seqs(i)]
    low, high = sorted(lengths)[5], sorted(lengths)[15]
    options = {"max_seq_length": {"data": high}, "min_seq_length": {"data": low}}
    num_long, num_short = sum(n > high for n in lengths), sum(n < low for n in lengths)
    assert min(num_long, num_short) > 1
    text = f"left out {num_long} sequences by 'max_seq_length', {num_short} sequences by 'min_seq_length'"
    tasks.train(config(tmp_path, train=data, dev=data, **options))
    out = capsys.readouterr().out.splitlines()
    assert sorted(line for line in out if "left out" in line) == [f"dev epoch 1: {text}", f"train epoch 1: {text}"]
    scores = {"eval_output_file_per_seq": str(tmp_path / "seqs"), "max_total_num_seqs": 3}
    tasks.evaluate(config(tmp_path, task="eval", dev=data, **options, eval_output_file_per_seq=str(tmp_path / "seqs")))
    out = capsys.readouterr().out
    assert f"dev epoch 1: {text}\n" in out
    num_written = len((tmp_path / "seqs").read_text().splitlines())
    assert num_written == 25 - num_long - num_short
    by_length = f"{num_long} by 'max_seq_length', {num_short} by 'min_seq_length'"
    missing = f"without {num_long + num_short} of 25 sequences: {by_length}\n"
    assert f"dev: wrote {str(tmp_path / 'seqs')!r}, in the order of the corpus, {missing}" in out
    tasks.evaluate(config(tmp_path, task="eval", dev=data, **scores))
    missing = "without 22 of 25 sequences: 22 by 'max_total_num_seqs' or options of the data set\n"
    assert f"in the order of the corpus, {missing}" in capsys.readouterr().out
    forward = {"task": "forward", "forward_data": data, "output_file": str(tmp_path / "out.hdf")}
    tasks.forward(config(tmp_path, **forward, **options, allow_skipping_seqs_in_forward=True))
    assert f"forward: {text}\n" in capsys.readouterr().out
    tasks.forward(config(tmp_path, **forward, **options, forward_override_hdf_output=True))
    assert "left out" not in capsys.readouterr().out
