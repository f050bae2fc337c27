"""Exported models, run by scripts without this toolkit: the same numbers."""

import ast
import os
import runpy
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy
import pytest
import tensorflow as tf

import returnn
import returnn.__main__ as rnn
from returnn.config import Config
from returnn.tf.graph_export import GraphMode, build_graph
from returnn.tf.network import TFNetwork
from returnn.tf.tflite import to_tflite
from returnn.util.backend_engine import BackendEngine
from returnn.util.errors import ConfigError
from tests.tools.test_search_models import OPTIONS as SEARCH_OPTIONS
from tests.tools.test_search_models import write_config

tf1 = tf.compat.v1
EXAMPLES = Path(__file__).parent.parent.parent / "demos" / "export"
OPTIONS = {
    "extern_data": {"data": {"dim": 2}, "classes": {"dim": 3, "sparse": True}},
    "network": {
        "conv": {
            "class": "conv",
            "filter_size": [3],
            "padding": "same",
            "n_out": 4,
            "activation": "relu",
            "from": "data",
        },
        "lstm": {"class": "rec", "unit": "nativelstm2", "n_out": 3, "direction": -1, "from": "conv"},
        "attention": {"class": "self_attention", "num_heads": 1, "total_key_dim": 2, "n_out": 3, "from": "lstm"},
        "output": {"class": "softmax", "from": "attention", "loss": "ce"},
    },
    "behavior_version": 21,
}
RNG = numpy.random.RandomState(1)
DATA = RNG.normal(size=(3, 7, 2)).astype("float32")
LENGTHS = numpy.array([7, 4, 5], "int32")
DATA[numpy.arange(7) >= LENGTHS[:, None]] = 0.0


def _model(folder, options):
    """:return: config of a model with random parameters"""
    path = write_config(folder, options)
    assert rnn.main(["rnn.py", str(path), "++task", "initialize_model", "-v", "1"]) == 0
    BackendEngine.selected_engine = None
    for file in folder.glob("net.000.*"):
        file.rename(str(file).replace(".000.", ".001."))
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return _model(tmp_path_factory.mktemp("forward"), OPTIONS)


def _run(example, model, inputs, folder):
    """:return: what the script writes"""
    source = (EXAMPLES / example).read_text(encoding="utf8")
    assert "returnn" not in source.split('"""')[2]
    numpy.savez(folder / "in.npz", **inputs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", [example, str(model), str(folder / "in.npz"), str(folder / "out.npz")])
        tf1.reset_default_graph()
        tf1.enable_eager_execution()  # an engine may have switched it off
        with ThreadPoolExecutor(1) as thread:
            thread.submit(runpy.run_path, str(EXAMPLES / example), run_name="__main__").result()
    return dict(numpy.load(folder / "out.npz"))


def _wanted(model):
    """:return: (batch, time, labels), by the network itself"""
    reader = tf.train.load_checkpoint(str(model.parent / "net.001"))
    with tf.Graph().as_default(), tf1.Session() as session:
        net = TFNetwork(config=Config(OPTIONS), train_flag=False)
        net.construct_from_dict(OPTIONS["network"])
        for param in net.get_params_list():
            param.load(reader.get_tensor(param.name.split(":")[0]), session)
        data = net.extern_data.data["data"]
        feed = {data.placeholder: DATA, data.get_sequence_lengths(): LENGTHS}
        return session.run(net.get_default_output_layer().output.copy_as_batch_major().placeholder, feed)


class _Code(str):
    """For configs: stands there as it is."""

    __slots__ = ()
    __repr__ = str.__str__


FORMATS = [("model", "run_saved_model.py"), ("model.pb", "run_frozen_graph.py")]


@pytest.mark.parametrize(("name", "example"), FORMATS)
def test_batches_of_fixed_sizes_give_the_same(tool, model, tmp_path, name, example):
    assert tool("export_model", model, tmp_path / name, "--verbosity", 1)[0] == 0
    inputs = {"data": numpy.pad(DATA[1:], [(0, 0), (0, 3), (0, 0)]), "data:size1": LENGTHS[1:]}
    output = _run(example, tmp_path / name, inputs, tmp_path)["output"]
    for b, length in enumerate(LENGTHS[1:]):
        numpy.testing.assert_allclose(output[b, :length], _wanted(model)[b + 1, :length], atol=1e-5)


@pytest.mark.parametrize(("name", "example"), FORMATS)
def test_exported_models_give_the_same(tool, model, tmp_path, name, example):
    options = ["--verbosity", 1]
    status, out, err = tool("export_model", model, tmp_path / name, *options)
    assert (status, err) == (0, "")
    assert "input data: " in out
    inputs = {"data": DATA.astype("float64"), "data:size1": LENGTHS.astype("int64"), "other": LENGTHS}  # as people make
    found = _run(example, tmp_path / name, inputs, tmp_path)
    output = found["output"]
    assert output.shape[:2] == (3, 7)  # as the inputs, though the LSTM computes in another layout
    lengths = found.get("output:size1", found.get("output_size1"))  # a graph has no ":" in its names
    numpy.testing.assert_array_equal(lengths, LENGTHS)
    for b, length in enumerate(LENGTHS):
        numpy.testing.assert_allclose(output[b, :length], _wanted(model)[b, :length], atol=1e-5)
    in_out = (tmp_path / "in.npz", tmp_path / "out.npz")
    env = {key: value for key, value in os.environ.items() if key != "TF_CPP_MIN_LOG_LEVEL"}
    done = subprocess.run(
        [sys.executable, EXAMPLES / example, tmp_path / name, *in_out], capture_output=True, check=True, env=env
    )
    assert (done.stdout, done.stderr) == (b"", b"")
    alone = _run(example, tmp_path / name, {"data": DATA[1:2, :4], "data:size1": LENGTHS[1:2]}, tmp_path)["output"]
    numpy.testing.assert_allclose(alone.reshape(4, 3), output[1, :4], atol=1e-5)


@pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated")
def test_lite_model_gives_the_same(tool, model, tmp_path):
    path = tmp_path / "model.tflite"
    status, out, err = tool("export_model", model, path, "--verbosity", 1)
    assert (status, err) == (0, "")
    assert "TensorFlow Lite" in out
    wanted = _wanted(model)
    for b, length in enumerate(LENGTHS):  # one sequence, of any length
        inputs = {"data": DATA[b : b + 1, :length], "data:size1": LENGTHS[b : b + 1]}
        found = _run("run_tflite.py", path, inputs, tmp_path)
        assert [value.tolist() for name, value in found.items() if name.startswith("output:size")] == [[length]]
        numpy.testing.assert_allclose(found["output"].reshape(length, 3), wanted[b, :length], atol=1e-5)


KEEPS = {"initial_state": "keep_over_epoch"}
KEPT_STATES = {
    "unit": {"class": "rec", "unit": "lstm", "n_out": 3, "from": "data", **KEEPS},
    "frames": {"class": "self_attention", "num_heads": 1, "total_key_dim": 2, "n_out": 3, "attention_left_only": True,
               "from": "data", **KEEPS},
    "loop": {"class": "rec", "from": "data", "use_global_rec_step_offset": True, "unit": {
        "step": {"class": "cast", "dtype": "float32", "from": ":i"},
        "past": {"class": "linear", "activation": "tanh", "n_out": 3, "from": ["data:source", "prev:output"]},
        "output": {"class": "eval", "eval": "source(0) * (source(1) + 1.0)", "from": ["past", "step"],
                   "initial_output": "keep_over_epoch"},
    }},
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated")
@pytest.mark.parametrize("name", list(KEPT_STATES))
def test_kept_states_start_from_zero(tool, tmp_path, name):
    network = {"kept": KEPT_STATES[name], "output": {"class": "softmax", "from": "kept", "loss": "ce"}}
    config = _model(tmp_path, {**OPTIONS, "network": network})
    loaded = returnn.load(config)
    wanted = loaded.forward([DATA[0]])[0]
    loaded.close()
    for file, example in (("model", "run_saved_model.py"), ("model.tflite", "run_tflite.py")):
        status, _out, err = tool("export_model", config, tmp_path / file, "--verbosity", 1)
        assert (status, err) == (0, "")
        for _call in range(2):
            inputs = {"data": DATA[:1], "data:size1": LENGTHS[:1]}
            found = _run(example, tmp_path / file, inputs, tmp_path)["output"]
            numpy.testing.assert_allclose(found.reshape(7, 3), wanted, atol=1e-5)


STEPWISE = {
    **OPTIONS,
    "extern_data": {"data": {"dim": 6, "sparse": True}, "c": {"shape": (4,)}, "h": {"shape": (4,)}},
    "network": {
        "lstm": {
            "class": "rec",
            "unit": "nativelstm2",
            "n_out": 4,
            "from": "data",
            "initial_state": {"c": "data:c", "h": "data:h"},
        },
        "output": {"class": "softmax", "from": "lstm", "target": "data", "loss": "ce"},
        "c_after": {"class": "get_last_hidden_state", "from": "lstm", "key": "c", "n_out": 4, "is_output_layer": True},
        "h_after": {"class": "get_last_hidden_state", "from": "lstm", "key": "h", "n_out": 4, "is_output_layer": True},
    },
}


@pytest.mark.parametrize("with_flag", [False, True])
def test_states_go_in_and_out(tool, tmp_path, with_flag):
    options = STEPWISE
    if with_flag:
        data = {key: {**desc, "available_for_inference": True} for key, desc in STEPWISE["extern_data"].items()}
        options = {**STEPWISE, "extern_data": data}
    status, out, err = tool("export_model", _model(tmp_path, options), tmp_path / "model", "--verbosity", 1)
    assert (status, err) == (0, "")
    assert {f"input {name}" for name in ("data", "data:size1", "c", "h")} <= {x.split(": ")[0] for x in out.split("\n")}
    labels = numpy.array([[1, 4, 2, 0, 3], [2, 2, 5, 1, 0]], "int32")
    state = {"c": RNG.normal(size=(2, 4)).astype("float32"), "h": RNG.normal(size=(2, 4)).astype("float32")}
    tf1.reset_default_graph()
    tf1.enable_eager_execution()  # an engine may have switched it off
    network = tf.saved_model.load(str(tmp_path / "model")).signatures["serving_default"]

    def run(frames, before):
        lengths = numpy.full([len(frames)], frames.shape[1], "int32")
        inputs = {"data": frames, "data:size1": lengths, **before}
        found = network(**{key: tf.constant(value) for key, value in inputs.items()})
        return found["output"].numpy(), {key: found[f"{key}_after"].numpy() for key in before}

    whole, after = run(labels, state)
    parts = []
    for begin, end in ((0, 1), (1, 2), (2, 4), (4, 5)):
        output, state = run(labels[:, begin:end], state)
        parts.append(output)
    numpy.testing.assert_allclose(numpy.concatenate(parts, axis=1), whole, atol=1e-6)
    for key, value in after.items():
        numpy.testing.assert_allclose(state[key], value, atol=1e-6)


def test_operations_that_tensorflow_lite_has_not_are_named():
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [None, 2, 2], name="data")
        with tf.name_scope("inverse"):
            y = tf.linalg.inv(x[:, None][:, 0])
    with pytest.raises(ConfigError) as caught:
        to_tflite(graph.as_graph_def(), {"data": x.name}, {"output": y.name})
    lines = str(caught.value).splitlines()
    assert lines[:2] == ["format 'tflite': TensorFlow Lite has no such operation:", "  MatrixInverse: 'inverse'"]
    assert "'saved_model'" in lines[2]


@pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated")
@pytest.mark.parametrize(
    "layer",
    [
        {"class": "conv", "filter_size": (3, 3), "n_out": 4},  # each feature is a group of its own
        {"class": "conv", "filter_size": (3, 3), "n_out": 4, "dilation_rate": 2},
        {"class": "pool", "mode": "max", "pool_size": (3, 3)},
    ],
)
@pytest.mark.parametrize("padding", ["same", "same_static"])
def test_lite_model_has_windows_with_strides(layer, padding, tool, tmp_path):
    """Frames around a sequence, the number of which depends on its length, hide no sizes from the converter."""
    network = {
        "image": {"class": "split_dims", "axis": "F", "dims": (2, 1), "from": "data"},
        "windows": {**layer, "padding": padding, "strides": 2, "use_time_mask": True, "from": "image"},
        "merged": {"class": "merge_dims", "axes": "static", "from": "windows"},
        "output": {"class": "linear", "activation": None, "n_out": 2, "from": "merged", "loss": "as_is"},
    }
    path = tmp_path / "model.tflite"
    model = _model(tmp_path, {**OPTIONS, "network": network})
    assert tool("export_model", model, path, "--verbosity", 1)[0] == 0
    assert tool("export_model", model, tmp_path / "model.pb", "--verbosity", 1)[0] == 0
    for length in (1, 4, 5):
        inputs = {"data": DATA[:1, :length], "data:size1": numpy.array([length], "int32")}
        wanted = _run("run_frozen_graph.py", tmp_path / "model.pb", inputs, tmp_path)["output"]
        numpy.testing.assert_allclose(_run("run_tflite.py", path, inputs, tmp_path)["output"], wanted, atol=1e-5)


@pytest.mark.skipif(shutil.which("g++") is None, reason="no compiler")
def test_example_in_cpp_gives_the_same(tool, model, tmp_path):
    assert tool("export_model", model, tmp_path / "model", "--verbosity", 1)[0] == 0
    library = Path(tf.__file__).parent
    source = EXAMPLES / "run_saved_model.cpp"
    command = [
        "g++", "-O0", "-std=c++17", f"-I{library / 'include'}", source, "-o", tmp_path / "run", f"-L{library}",
        "-l:libtensorflow_cc.so.2", "-l:libtensorflow_framework.so.2", f"-Wl,-rpath,{library}",
    ]  # fmt: skip
    subprocess.run(command, check=True, timeout=600)
    frames = DATA[1, : LENGTHS[1]]
    text = "\n".join(" ".join(repr(float(x)) for x in frame) for frame in frames)

    def run(output):
        command = [tmp_path / "run", tmp_path / "model", output]
        env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
        return subprocess.run(command, input=text, capture_output=True, text=True, env=env, timeout=600, check=False)

    found = [[float(x) for x in line.split()] for line in run("output").stdout.splitlines()]
    numpy.testing.assert_allclose(found, _wanted(model)[1, : LENGTHS[1]], atol=1e-4)


@pytest.mark.parametrize("name", ["export-model", "compile-tf-graph"])
def test_a_checkpoint_of_unknown_epoch_has_the_last_network(tool, tmp_path, name):
    small = {"output": {**OPTIONS["network"]["output"], "from": "data"}}
    model = _model(tmp_path, OPTIONS)
    for file in tmp_path.glob("net.001.*"):
        file.rename(str(file).replace("net.001.", "mean."))
    networks = f"\nget_network = lambda epoch, **_: network if epoch > 2 else {small!r}\nnum_epochs = 3\n"
    model.write_text(model.read_text() + networks)
    options = ["--checkpoint", tmp_path / "mean", tmp_path / "my.pb"]
    options = options if name == "export-model" else ["--output_file", tmp_path / "my.pb"]
    assert tool(name, model, *options, "--verbosity", 1)[0] == 0
    graph = tf1.GraphDef.FromString((tmp_path / "my.pb").read_bytes())
    assert any(node.name.startswith("lstm/") for node in graph.node)


@pytest.mark.parametrize("name", ["export-model", "compile-tf-graph"])
def test_networks_without_search_are_not_exported_as_one(tool, model, tmp_path, name):
    output = [tmp_path / "model.pb"] if name == "export-model" else ["--output_file", tmp_path / "model.pb"]
    status, _, err = tool(name, model, *output, "--search", 1, "--verbosity", 1)
    assert status == 1
    assert "option '--search': the network has no search, such as a loop with the layer 'choice'" in err
    assert not (tmp_path / "model.pb").exists()


def test_exported_search(tool, tmp_path):
    model = _model(tmp_path, SEARCH_OPTIONS)
    options = ["++task", "search", "++search_output_file", str(tmp_path / "hyps"), "++search_output_file_format", "py"]
    options += ["++search_output_layer", "decision", "++search_data", "config:train"]
    assert rnn.main(["rnn.py", str(model), *options, "-v", "1"]) == 0
    BackendEngine.selected_engine = None
    wanted = ast.literal_eval((tmp_path / "hyps").read_text())
    options = ["--search", 1, "--verbosity", 1, "++search_output_layer", "decision"]
    assert tool("export_model", model, tmp_path / "model", *options)[0] == 0
    seqs = [numpy.array(seq["data"], "float32") for seq in SEARCH_OPTIONS["train"]["data"]]
    lengths = numpy.array(list(map(len, seqs)), "int32")
    data = numpy.stack([numpy.pad(seq, [(0, max(lengths) - len(seq)), (0, 0)]) for seq in seqs])
    found = _run("run_saved_model.py", tmp_path / "model", {"data": data, "data:size1": lengths}, tmp_path)
    rows = zip(found["decision"], found["decision:size1"], strict=True)
    assert [" ".join(map(str, row[:size])) for row, size in rows] == list(wanted.values())
    without = tool("export_model", model, tmp_path / "labels", "--verbosity", 1)[2]
    assert without.startswith("error: no parameter of the network is needed for its outputs, 'output'.\n")
    assert "'--search 1' exports the search" in without


@pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated")
@pytest.mark.parametrize(("name", "example"), [*FORMATS, ("model.tflite", "run_tflite.py")])
def test_lengths_that_inputs_share_are_one_input(tool, tmp_path, name, example):
    time = _Code("(time_dim := __import__('returnn.tensor', fromlist=['Dim']).Dim(None, name='time'))")
    options = {
        **OPTIONS,
        "extern_data": {
            "data": {"dim": 2, "same_dim_tags_as": {"t": time}},
            "factor": {"dim": 3, "sparse": True, "same_dim_tags_as": {"t": _Code("time_dim")}},
        },
        "network": {
            "embedding": {"class": "linear", "activation": None, "n_out": 2, "from": "data:factor"},
            "sum": {"class": "combine", "kind": "add", "from": ["data", "embedding"]},
            "output": {"class": "reduce", "mode": "mean", "axis": "T", "from": "sum", "loss": "as_is"},
        },
    }
    model = _model(tmp_path, options)
    status, out, err = tool("export_model", model, tmp_path / name, "--verbosity", 1)
    assert (status, err) == (0, "")
    assert [line.split(":")[0] for line in out.splitlines() if line.startswith("input")].count("input factor") == 1
    reader = tf.train.load_checkpoint(str(tmp_path / "net.001"))
    table = reader.get_tensor("embedding/W") + reader.get_tensor("embedding/b")
    factor = RNG.randint(0, 3, size=(1, 7)).astype("int32")
    # With two frames of padding behind the longest sequence, as batches of fixed sizes have it.
    inputs = {"data": DATA[1:2, :6], "data:size1": LENGTHS[1:2], "factor": factor[:, :6]}
    found = _run(example, tmp_path / name, inputs, tmp_path)["output"]
    wanted = (DATA[1, :4] + table[factor[0, :4]]).mean(axis=0)
    numpy.testing.assert_allclose(found[0], wanted, atol=1e-5)


def test_mistakes_about_the_new_file(tool, model, tmp_path):
    onnx = tool("export_model", model, tmp_path / "net.onnx", "--verbosity", 1)[2]
    assert "net.onnx': a network cannot be exported as '.onnx'. Possible: .pb, .tflite, or a folder." in onnx
    assert "'returnn tool torch-export-to-onnx'" in onnx
    assert tool("export_model", model)[2] == (
        f"error: the new file or folder is missing: returnn tool export-model {model} NAME.\n"
    )


def test_a_model_of_pytorch_becomes_onnx(tool, tmp_path):
    path = tmp_path / "my.config"
    path.write_text("#!rnn.py\nbackend = 'torch'\ndef get_model(**_): pass\n")
    error = tool("export_model", path, tmp_path / "a", "--verbosity", 1)[2]
    assert error.startswith(
        "error: the model is one of PyTorch (option 'backend'), of which 'returnn tool torch-export"
    )
    assert "frozen (frozen graph, a file .pb)" in error


def test_folder_that_cannot_be_written(tool, model, tmp_path, monkeypatch):
    def fail(*_args):
        raise tf.errors.ResourceExhaustedError(None, None, "/x/saved_model.pb; No space left on device")

    monkeypatch.setattr(tf.compat.v1.saved_model, "simple_save", fail)
    out = tmp_path / "a"
    error = tool("export_model", model, out, "--verbosity", 1)[2]
    assert error == f"error: cannot write the folder {str(out)!r}: No space left on device.\n"
    assert not out.exists()


def test_what_cannot_be_exported(tool, model, tmp_path):
    (tmp_path / "there").mkdir()
    assert tool("export_model", model, tmp_path / "there", "--verbosity", 1)[2] == (
        f"error: {str(tmp_path / 'there')!r} exists already.\n  Remove it, or choose another name.\n"
    )
    assert tool("export_model", model, tmp_path / "a", "--format", "onnx", "--verbosity", 1)[2].startswith(
        "error: option '--format': there is no format 'onnx'.\n"
    )
    assert tool("export_model", model, tmp_path / "a.tflite", "--verbosity", 1, "++tf_amp", "bfloat16")[2] == (
        "error: TensorFlow Lite has no mixed precision (option 'tf_amp'): '++tf_amp None' exports float32.\n"
    )
    (tmp_path / "there.pb").write_text("")
    assert tool("export_model", model, tmp_path / "there.pb", "--verbosity", 1)[2].startswith(
        f"error: {str(tmp_path / 'there.pb')!r} exists already.\n"
    )
    other = repr({"output": {"class": "softmax", "n_out": 3, "from": "data"}})
    error = tool("export_model", model, tmp_path / "a", "--verbosity", 1, "++network", other)[2]
    assert "'output/W' has the shape [2, 3] in the model, but [3, 3] in the file" in error
    other = other.replace("'output'", "'out'").replace("'from'", "'is_output_layer': True, 'from'")
    error = tool("export_model", model, tmp_path / "a", "--verbosity", 1, "++network", other)[2]
    assert "2 of 3 parameters are not in it: 'out/W', 'out/b'." in error
    none = tool("export_model", model, tmp_path / "a", "--verbosity", 1, "++model", tmp_path / "none")[2]
    assert none.startswith("error: option '--checkpoint' is required: there is no model to work on: '")
    error = tool("export_model", model, tmp_path / "a", "--verbosity", 1, "--epoch", 7)[2]
    assert error.startswith("error: there is no model of epoch 7.\n")
    assert error.endswith("net' has: 1.\n")
    both = tool("export_model", model, tmp_path / "a", "--epoch", 1, "--checkpoint", "net")[2]
    assert both == "error: give either the option '--epoch' or '--checkpoint'.\n"


@pytest.mark.parametrize("in_loop", [False, True])
def test_what_asks_python_is_named(in_loop):
    def ask(source, **kwargs):
        raw = tf.numpy_function(lambda x: x, [source(0)], tf.float32)
        return tf.ensure_shape(raw, source(0).shape)

    asked = {"class": "eval", "eval": ask, "from": "data:source" if in_loop else "data"}
    if in_loop:
        unit = {"asked": asked, "output": {"class": "combine", "kind": "add", "from": ["asked", "prev:output"]}}
        asked = {"class": "rec", "unit": unit, "from": "data"}
    config = Config({"extern_data": {"data": {"dim": 2}}, "network": {"output": asked}, "behavior_version": 21})
    with pytest.raises(ConfigError, match=r"operation .output/.*: calls a Python function"):
        build_graph(config, GraphMode(train_flag=False))


@pytest.mark.parametrize("script", ["run_saved_model.py", "run_frozen_graph.py", "run_tflite.py"])
def test_examples_without_their_inputs(script, tmp_path):
    done = subprocess.run(
        [sys.executable, EXAMPLES / script, "x", "no.npz", "y"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (1, "There is no file 'no.npz' with the inputs.\n")
