"""The G2P model as a net dict, and in Python on PyTorch and TensorFlow: loss, gradients and hypotheses are the same."""

import importlib
import math
import os
import subprocess
import sys

import numpy
import pytest
import tensorflow as tf
import torch

import returnn.frontend as rf
from returnn.__main__ import main
from returnn.config import Config, set_global_config
from returnn.datasets.util.vocab_file import read_literal_file
from returnn.engine.frontend import tasks as rf_tasks
from returnn.engine.hypothesis_files import read_hypotheses
from returnn.engine.learning_rate_file import read_learning_rate_file
from returnn.engine.score_names import find_score
from returnn.log import log
from returnn.tf.engine import tasks as net_dict_tasks
from returnn.tools.checkpoints.formats import Checkpoint, read_checkpoint, write_any_checkpoint
from returnn.tools.checkpoints.layer_modules import layers_to_modules, places_of
from returnn.util.backend_engine import BackendEngine
from tests.tools.conftest import tool

__all__ = ["tool"]

SCORES = ("train_score", "train_error", "dev_score", "dev_error")
DEMO = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "demos", "g2p")
MAPPING = os.path.join(DEMO, "layers_to_modules.map")
WORDS = "CABBA\tK AE B AH\nBACA\tB AA K AH\nA\tAH\nBACKABACK\tB AE K\n"
SIZES = {"embedding": 3, "encoder": 4, "decoder": 5, "attention": 3}
ENTROPY = -(0.9 * math.log(0.9) + 0.1 * math.log(0.1 / 39))  # of targets among 40 phonemes
LENGTHS = ((3, 4), (7, 5), (1, 2), (5, 8), (9, 3))  # of words and pronunciations
NUM_LABELS = sum(length for _, length in LENGTHS)
END = "</s>"
BACKENDS = ("tensorflow-net-dict", "torch", "tensorflow")


@pytest.fixture
def demo(monkeypatch):
    """:return: the modules with the net dict, and with the model in Python"""
    monkeypatch.setattr(sys, "path", [DEMO, *sys.path])
    log.initialize(verbosity=[3])
    before = BackendEngine.selected_engine
    yield importlib.import_module("g2p_network"), importlib.import_module("g2p_rf")
    set_global_config(None)
    rf.select_backend_numpy()
    BackendEngine.selected_engine = before
    tf.compat.v1.reset_default_graph()


def options(demo, backend, folder):
    network, model = demo
    folder.mkdir(exist_ok=True)
    random = numpy.random.RandomState(1)
    words = [
        {"data": random.randint(1, 20, n).astype("int32"), "classes": random.randint(0, 30, m).astype("int32")}
        for n, m in LENGTHS
    ]
    data = {"class": "StaticDataset", "data": words, "output_dim": {"data": (28, 1), "classes": (40, 1)}}
    common = {
        "backend": backend, "behavior_version": 30, "train": data, "dev": data, "search_data": data,
        "default_float_dtype": "float64", "learning_rate": 1.0, "max_seqs": 100, "batch_size": 100_000,
        "num_epochs": 1, "model": str(folder / "net"), "learning_rate_file": str(folder / "rates"), "device": "cpu",
        "extern_data": model.EXTERN_DATA, "search_output_file": str(folder / "hypotheses.py"),
        "search_output_file_format": "py", "task": "train",
    }  # fmt: skip
    if backend == BACKENDS[0]:
        net = network.attention_network(
            **SIZES, encoder_dropout=0.0, decoder_dropout=0.0, output_dropout=0.0, beam_size=4
        )
        net["output"]["unit"]["output"]["length_normalization"] = False
        extern_data = importlib.import_module("g2p_data").EXTERN_DATA
        return {**common, "network": net, "extern_data": extern_data, "search_output_layer": "output"}
    return {
        **common, "train_step": model.train_step, "forward_step": model.forward_step, "beam_size": 4,
        "get_model": lambda **_: model.Model(**SIZES, encoder_dropout=0.0, output_dropout=0.0),
        "length_normalization_exponent": 0.0, "search_output_layer": "output",
    }  # fmt: skip


def run(task, options):
    config = Config(options)
    set_global_config(config)
    BackendEngine.select_engine(config=config)
    if options["backend"] != BACKENDS[0]:
        getattr(rf_tasks, task)(config)
    else:
        getattr(net_dict_tasks, "search_task" if task == "search" else task)(config)
    tf.compat.v1.reset_default_graph()


def values_of(name, backend):
    if backend == "torch":
        return {key: x.numpy() for key, x in torch.load(f"{name}.pt", weights_only=True)["model"].items()}
    reader = tf.train.load_checkpoint(str(name))
    values = {key: reader.get_tensor(key) for key in reader.get_variable_to_shape_map()}
    if backend == BACKENDS[0]:
        del values["global_step"]
        return layers_to_modules(values, places_of(read_literal_file(MAPPING))).values
    return {key.replace("/", "."): x for key, x in values.items() if key != "global_step"}


@pytest.mark.slow
def test_three_backends_train_and_decode_alike(demo, tmp_path):
    run("initialize_model", {**options(demo, BACKENDS[0], tmp_path / "begin"), "task": "initialize_model"})
    begin = str(tmp_path / "begin" / "net.000")
    initial = values_of(begin, BACKENDS[0])
    torch.save({"model": {key: torch.tensor(x) for key, x in initial.items()}}, f"{begin}.pt")
    after, scores, hypotheses = {}, {}, {}
    for backend in BACKENDS:
        given = options(demo, backend, tmp_path / backend)
        source = begin if backend == BACKENDS[0] else f"{begin}.pt"
        # One step of gradient descent with the learning rate 1: the parameters differ by the gradients.
        run("train", {**given, "import_model_train_epoch1": source})
        after[backend] = values_of(tmp_path / backend / "net.001", backend)
        data = read_learning_rate_file(given["learning_rate_file"])[1]
        scores[backend] = {key: data.error[find_score(key, data.error, data.as_error)] for key in SCORES}
        run("search", {**given, "task": "search", "load": str(tmp_path / backend / "net.001")})
        hypotheses[backend] = read_hypotheses(given["search_output_file"])
    wanted = after[BACKENDS[0]]
    for backend in BACKENDS[1:]:
        assert set(after[backend]) == set(wanted)
        for name, value in wanted.items():
            assert numpy.abs(value - initial[name]).max() > 1e-7, name
            numpy.testing.assert_allclose(after[backend][name], value, rtol=0, atol=1e-9, err_msg=name)
        for name in ("train", "dev"):
            # The loss of the layer leaves out the entropy of the smoothed targets, on which nothing depends. Its mean
            # is the sum times a factor of float32.
            score = scores[BACKENDS[0]][f"{name}_score"] / float(numpy.float32(1 / NUM_LABELS)) / NUM_LABELS + ENTROPY
            assert scores[backend][f"{name}_score"] == pytest.approx(score, abs=1e-9)
            assert scores[backend][f"{name}_error"] == pytest.approx(scores[BACKENDS[0]][f"{name}_error"], abs=1e-6)
        assert_same_hypotheses(hypotheses[BACKENDS[0]], hypotheses[backend])


STEP_CONFIG = """#!rnn.py
import sys

sys.path.insert(0, {demo!r})
import g2p_rf

SIZES = {sizes}
backend = "torch"
behavior_version = 30
extern_data = g2p_rf.EXTERN_DATA
step_data = g2p_rf.step_data(**SIZES)
encoder_step, decoder_step = g2p_rf.encoder_step, g2p_rf.decoder_step


def get_model(**_kwargs):
    return g2p_rf.Model(embedding=3, encoder_dropout=0.1, output_dropout=0.2, **SIZES)
"""


@pytest.mark.parametrize("exponent", [0.0, 1.0])
def test_search_over_an_exported_step(exponent, demo, tool, tmp_path):
    """The encoder and one step, run by onnxruntime alone, find what the search of the toolkit finds."""
    pytest.importorskip("onnxruntime")
    given = options(demo, "torch", tmp_path / "torch")
    given |= {"default_float_dtype": "float32", "length_normalization_exponent": exponent}
    run("initialize_model", {**given, "task": "initialize_model"})
    checkpoint = str(tmp_path / "torch" / "net.000")
    values = torch.load(f"{checkpoint}.pt", weights_only=True)
    values["model"] = {name: 3 * value for name, value in values["model"].items()}  # so that scores are not all alike
    torch.save(values, f"{checkpoint}.pt")
    run("search", {**given, "task": "search", "load": checkpoint})
    expected = read_hypotheses(given["search_output_file"])
    config = tmp_path / "step.config"
    sizes = {name: size for name, size in SIZES.items() if name != "embedding"}
    config.write_text(STEP_CONFIG.format(demo=DEMO, sizes=sizes), encoding="utf8")
    for name, more in (("encoder", []), ("decoder", ["--extern_data", "step_data"])):
        step = ["--forward_step", f"{name}_step", *more, "--verbosity", 1]
        status, _, err = tool("torch_export_to_onnx", config, f"{checkpoint}.pt", tmp_path / f"{name}.onnx", *step)
        assert (status, err) == (0, "")
    words = [seq["data"] for seq in given["search_data"]["data"]]
    padded = numpy.zeros((len(words), max(map(len, words))), "int32")
    for row, word in zip(padded, words, strict=True):
        row[: len(word)] = word
    numpy.savez(tmp_path / "in.npz", data=padded, **{"data:size1": [len(word) for word in words]})
    script = os.path.join(os.path.dirname(DEMO), "export", "run_onnx_search.py")
    files = [str(tmp_path / name) for name in ("encoder.onnx", "decoder.onnx", "in.npz", "out.npz")]
    arguments = ["--beam_size", "4", "--exponent", str(exponent), "--limit", "1", "8"]  # as the search of the demo
    subprocess.run([sys.executable, script, *files, *arguments], check=True)
    found = numpy.load(tmp_path / "out.npz")
    vocab = demo[1].phonemes_dim.vocab.labels
    for i, hyps in enumerate(expected.values()):
        assert " ".join(vocab[label] for label in found[f"labels{i}"]) == hyps[0][1]
        length = min(len(found[f"labels{i}"]) + 1, len(words[i]) + 8)  # with the end, unless the limit has cut it
        assert found[f"score{i}"] / length**exponent == pytest.approx(hyps[0][0], abs=1e-4)


def assert_same_hypotheses(one, other):
    """In the net dict, a hypothesis that has ended has the label of the end."""
    assert list(one) == list(other)
    lengths = set()
    for tag, hyps in one.items():
        for (score, text), (other_score, other_text) in zip(hyps, other[tag], strict=True):
            assert other_score == pytest.approx(score, abs=1e-5)
            labels = text.split()
            assert [label for label in labels if label != END] == other_text.split()
            lengths.add(len(labels))
    assert len(lengths) > 2


@pytest.fixture
def words(demo, tmp_path, monkeypatch):
    """The data of the configs, in a folder to run them in."""
    g2p_data = importlib.import_module("g2p_data")
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.txt").write_text(WORDS)
    monkeypatch.setenv("G2P_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    g2p_data.pronunciations.cache_clear()
    yield
    g2p_data.pronunciations.cache_clear()


def run_config(name, task, *args):
    """:return: what it has found, if the task is "search" """
    assert main(["rnn.py", os.path.join(DEMO, name), "++task", task, *args]) == 0
    set_global_config(None)
    tf.compat.v1.reset_default_graph()
    file = f"g2p-{name.removesuffix('.config')}/hypotheses.py"
    return read_hypotheses(file) if task == "search" else None


def test_models_go_from_one_config_to_the_other_and_back(words):
    """With random parameters, none of which is 0."""
    run_config("attention.config", "initialize_model")
    random = numpy.random.RandomState(1)
    initial = read_checkpoint("g2p-attention/network.000").values
    values = {
        name: x if name.startswith("optimize/") else random.normal(scale=0.2, size=x.shape).astype("float32")
        for name, x in initial.items()
    }
    values["output/rec/prob/b"][0] = 3.0  # so that all hypotheses end
    write_any_checkpoint(Checkpoint(values, {"step": 1}), "g2p-attention/network.001")
    os.mkdir("g2p-rf")
    tool = ["rnn.py", "tool", "convert-checkpoint"]
    assert main([*tool, "g2p-attention/network.001", "g2p-rf/network.001.pt", "--layers_to_modules", MAPPING]) == 0
    assert main([*tool, "g2p-rf/network.001.pt", "back/network.001", "--modules_to_layers", MAPPING]) == 0
    assert main([*tool, "back/network.001", "again.pt", "--layers_to_modules", MAPPING]) == 0
    modules, again = (read_checkpoint(file).values for file in ("g2p-rf/network.001.pt", "again.pt"))
    for name, value in modules.items():
        numpy.testing.assert_allclose(again[name], value, rtol=0, atol=1e-7 if name == "s.bias" else 0, err_msg=name)
    load = ("++load", "g2p-attention/network.001", "++search_output_layer", "output")
    of_layers = run_config("attention.config", "search", *load)
    of_modules = run_config("rf.config", "search", "++load", "g2p-rf/network.001")
    back = run_config("attention.config", "search", "++load", "back/network.001", *load[2:])
    assert len(of_layers) == 4
    for tag, hyps in of_layers.items():
        assert len(hyps) == len(of_modules[tag]) == len(back[tag]) == 12
        # For length normalization, layers divide by the longest hypothesis of the sequence plus 1.
        factor = of_modules[tag][0][0] / hyps[0][0]
        assert 1 < factor < 1.5
        for (score, text), other, same in zip(hyps, of_modules[tag], back[tag], strict=True):
            assert [x for x in text.split() if x != END] == other[1].split()
            assert (other[0] / factor, same[0]) == pytest.approx((score, score), abs=1e-4)
            assert same[1] == text
    assert len({text for hyps in of_modules.values() for _, text in hyps}) > 20
