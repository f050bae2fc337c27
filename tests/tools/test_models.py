"""Scripts that run a network."""

from pathlib import Path

import numpy
import pytest
import tensorflow as tf
from google.protobuf import text_format

import returnn.__main__ as rnn
from returnn.tf.frontend_low_level.kernels.native import get_operations
from returnn.util.backend_engine import BackendEngine

tf1 = tf.compat.v1
SIZES = "extern_data/placeholders/data/data_dim0_size:0"
LOOP = {
    "s": {"class": "rnn_cell", "unit": "LSTMBlock", "n_out": 3, "from": ["data:source", "prev:s"]},
    "output": {"class": "linear", "activation": "sigmoid", "n_out": 2, "from": "s"},
}
OPTIONS = {
    "extern_data": {"data": {"dim": 9}, "classes": {"dim": 2, "sparse": True}},
    "train": {"class": "Task12AXDataset", "num_seqs": 6},
    "network": {
        "loop": {"class": "rec", "from": "data", "unit": LOOP},
        "output": {"class": "softmax", "from": "loop", "loss": "ce"},
    },
    "batch_size": 150,
    "behavior_version": 21,
}


@pytest.fixture
def config(config_file, tmp_path):
    """A model with random parameters, as of epoch 1."""
    path = config_file(**OPTIONS, model=str(tmp_path / "net"))
    assert rnn.main(["rnn.py", str(path), "++task", "initialize_model", "-v", "1"]) == 0
    for file in tmp_path.glob("net.000.*"):
        file.rename(str(file).replace(".000.", ".001."))
    yield path
    BackendEngine.selected_engine = None


def test_outputs_of_some_sequences(tool, config):
    status, out, err = tool("dump-forward", config, "--startseq", 1, "--endseq", 3)
    assert (status, err) == (0, "")
    assert "seq-1: output float32[15, 2]\n[[" in out
    assert "seq-2: output float32[65, 2]\n[[" in out
    assert out.count("output float32") == 2
    values = numpy.array([line.strip(" []").split() for line in out.split("\n") if line.strip().startswith("[")], float)
    numpy.testing.assert_allclose(values.sum(axis=1), 1.0, rtol=1e-4)


def test_statistics_of_a_layer_inside_of_a_loop(tool, config, tmp_path):
    options = ["--layer", "loop/s", "--stats", "--dump_stats", tmp_path / "stats"]
    status, out, err = tool("dump-forward-stats", config, *options)
    assert (status, err) == (0, "")
    assert "loop/s: Stats(mean=[" in out
    assert "seqs=6, frames=" in out
    assert numpy.loadtxt(tmp_path / "stats.std_dev.txt").shape == (3,)
    load = ["--load", tmp_path / "net.001"]
    again = tool("dump-forward-stats", config, *options[:3], *load, "--reset_seq_ordering", "default")[1]
    means = [text[text.index("mean=[") + 6 : text.index("]")].split() for text in (out, again)]
    numpy.testing.assert_allclose(*numpy.array(means, float), rtol=1e-5)


def test_wrong_names(tool, config):
    assert tool("dump-forward-stats", config, "--layer", "loop/t", "--stats")[2] == (
        "error: layer 'loop/t': there is no layer 't'.\n  Possible: output, s.\n"
    )
    assert tool("dump-forward-stats", config, "--layer", "loop/s", "--stats", "--epoch", 7)[0] == 1
    assert tool("dump-forward-stats", config, "--layer", "loop/s")[0] == 1


@pytest.mark.parametrize("suffix", [".pb", ".metatxt"])
def test_an_exported_graph_runs_without_the_toolkit(tool, config, tmp_path, suffix):
    graph_file, names_file, state_file = tmp_path / f"graph{suffix}", tmp_path / "names", tmp_path / "state"
    status, out, err = tool(
        "compile_tf_graph", config, "--output_file", graph_file, "--output_file_model_params_list", names_file,
        "--output_file_state_vars_list", state_file, "--verbosity", 1,
    )  # fmt: skip
    assert (status, err) == (0, "")
    assert state_file.read_text() == ""  # no loop is asked for step by step
    assert "output output: output/output_batch_major:0\n" in out
    assert f"input data, lengths of axis 1: {SIZES}\n" in out
    names = names_file.read_text().split("\n")[:-1]
    assert names == sorted(
        name for name, _ in tf.train.list_variables(str(tmp_path / "net.001")) if name != "global_step"
    )
    tensors = dict(line.split(": ", 1) for line in out.split("\n") if line.startswith(("input", "output")))
    data = numpy.random.RandomState(1).normal(size=(2, 5, 9)).astype("float32")
    feed = {"input data": data, "input data, lengths of axis 1": [5, 3], "input size of the batch": 2}
    with tf.Graph().as_default(), tf1.Session() as session:
        _import(graph_file, suffix)
        session.run([_assign(name, value) for name, value in _values(tmp_path / "net.001", names).items()])
        feed = {tensors[key]: value for key, value in feed.items() if key in tensors}
        output = session.run(tensors["output output"], feed)
    assert output.shape[0] == 2
    assert sorted(output.shape) == [2, 2, 5]
    numpy.testing.assert_allclose(output.sum(axis=-1), 1.0, rtol=1e-5)


def _values(checkpoint, names):
    reader = tf.train.load_checkpoint(str(checkpoint))
    return {name: reader.get_tensor(name) for name in names}


def _assign(name, value):
    handle = tf1.get_default_graph().get_operation_by_name(name).outputs[0]
    return tf.raw_ops.AssignVariableOp(resource=handle, value=value)


def _import(filename, suffix):
    if suffix == ".pb":
        tf1.import_graph_def(tf1.GraphDef.FromString(filename.read_bytes()), name="")
    else:
        tf1.train.import_meta_graph(text_format.Parse(filename.read_bytes(), tf1.MetaGraphDef()))


def test_kernels_of_a_graph_are_written_beside_it(tool, tmp_path, monkeypatch):
    if get_operations() is None:
        pytest.skip("there is no compiler")
    config = tmp_path / "lstm.config"
    layer = {"class": "rec", "unit": "nativelstm2", "n_out": 3, "from": "data"}
    config.write_text(
        f"#!rnn.py\nextern_data = {{'data': {{'dim': 2}}}}\nnetwork = {{'output': {layer}}}\n", encoding="utf8"
    )
    for is_wanted in (True, False):
        monkeypatch.setenv("RETURNN_NATIVE", str(int(is_wanted)))
        file = tmp_path / f"{is_wanted}.pb"
        status, out, err = tool("compile_tf_graph", config, "--output_file", file, "--verbosity", 1)
        library = tmp_path / f"{is_wanted}.pb.kernels.so"
        assert (status, err, library.exists()) == (0, "", is_wanted)
        assert ("kernels, to be loaded by tf.load_op_library before the graph: " in out) == is_wanted
    monkeypatch.setenv("RETURNN_NATIVE", "1")
    assert (tmp_path / "True.pb.kernels.so").read_bytes() == Path(get_operations().filename).read_bytes()


def test_a_graph_for_training(tool, config):
    options = ["--verbosity", 1, "--train", -1, "--eval", 1]
    out = tool("compile_tf_graph", config, *options)[1]
    for name in ("loss output", "error output", "update of the parameters"):
        assert f"output {name}: " in out


@pytest.mark.parametrize("is_time_major", [False, True])
def test_names_that_decoders_outside_know(tool, config_file, is_time_major):
    """Axes of inputs are counted without the batch, and outputs have it first."""
    shape = {"dim": 9, "time_dim_axis": 0, "batch_dim_axis": 1} if is_time_major else {"dim": 9}
    path = config_file(
        extern_data={"data": shape},
        network={
            "lstm": {"class": "rec", "unit": "nativelstm2", "n_out": 3, "from": "data"},
            "output": {"class": "copy", "from": "lstm"},
            "sub": {"class": "subnetwork", "from": "data", "is_output_layer": True, "subnetwork": {
                "output": {"class": "linear", "n_out": 2, "from": "data", "activation": None},
            }},
        },
    )  # fmt: skip
    out = tool("compile_tf_graph", path, "--verbosity", 1)[1]
    assert f"input data, lengths of axis {int(not is_time_major)}: {SIZES}\n" in out
    for name in ("output", "sub"):
        assert f"output {name}: {name}/output_batch_major:0\noutput {name}, lengths of axis 1: {SIZES}\n" in out


def test_summaries_of_a_graph_without_any(tool, config, tmp_path):
    file = tmp_path / "graph.pb"
    status, out, err = tool(
        "compile_tf_graph",
        config,
        "--train",
        1,
        "--summaries_tensor_name",
        "sum",
        "--output_file",
        file,
        "--verbosity",
        1,
    )
    assert (status, err) == (0, "")
    assert "output summaries: sum:0\n" in out
    with tf.Graph().as_default(), tf1.Session() as session:
        _import(file, ".pb")
        assert session.run("sum:0") == b""


def test_another_format(tool, config, tmp_path):
    status, _, err = tool("compile_tf_graph", config, "--output_file", tmp_path / "graph.onnx", "--verbosity", 1)
    assert status == 1
    assert err == (
        f"error: graph file '{tmp_path / 'graph.onnx'}': unknown suffix '.onnx'.\n"
        "  Possible: .pb (graph, binary), .pbtxt (graph, as text), .meta (meta graph, binary), "
        ".metatxt (meta graph, as text).\n"
    )
