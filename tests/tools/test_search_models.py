"""Scripts about a search: its scores, also of the reference, and its graph, also of a single step."""

import ast
import json

import h5py
import numpy
import pytest
import tensorflow as tf

import returnn.__main__ as rnn
from returnn.datasets.hdf import HDFDataset
from returnn.util.backend_engine import BackendEngine

UNIT = {
    "s": {"class": "rnn_cell", "unit": "standardlstm", "n_out": 3, "from": ["prev:embed", "prev:context"]},
    "energy": {"class": "dot", "from": ["base:encoder", "s"], "reduce": "F", "add_var2_if_empty": False},
    "att_weights": {"class": "softmax_over_spatial", "from": "energy"},
    "context": {"class": "generic_attention", "weights": "att_weights", "base": "base:encoder"},
    "prob": {"class": "softmax", "from": ["s", "context"], "target": "classes", "loss": "ce", "n_out": 4},
    "output": {
        "class": "choice",
        "from": "prob",
        "target": "classes",
        "beam_size": 3,
        "length_normalization": False,
        "initial_output": 0,
    },
    "embed": {"class": "linear", "activation": None, "n_out": 3, "from": "output"},
    "end": {"class": "compare", "from": "output", "value": 0},
}
tf1 = tf.compat.v1
MAX_LEN = "max_len_from('base:encoder')"
OPTIONS = {
    "extern_data": {"data": {"dim": 2}, "classes": {"dim": 4, "sparse": True}},
    "network": {
        "encoder": {"class": "linear", "activation": "tanh", "n_out": 3, "from": "data"},
        "output": {"class": "rec", "from": [], "unit": UNIT, "target": "classes", "max_seq_len": MAX_LEN},
        "decision": {"class": "decide", "from": "output", "target": "classes"},
    },
    "search_output_layer": "output",
    "batch_size": 100,
    "behavior_version": 21,
    "train": {"class": "StaticDataset", "data": [
        {"data": numpy.random.RandomState(i).normal(size=(3 + i, 2)).tolist(), "classes": [i + 1, 2, 0]}
        for i in range(3)
    ], "output_dim": {"data": (2, 2), "classes": (4, 1)}},
}  # fmt: skip


def write_config(folder, options):
    """:return: file of a config with these options"""
    path = folder / "my.config"
    lines = [f"{key} = {value!r}\n" for key, value in {**options, "model": str(folder / "net")}.items()]
    arrays = (
        "import numpy\n"
        "for seq in globals().get('train', {}).get('data', ()):\n"
        "    seq.update(data=numpy.array(seq['data'], 'float32'), classes=numpy.array(seq['classes'], 'int32'))\n"
    )
    path.write_text("#!rnn.py\n" + "".join(lines) + arrays, encoding="utf8")
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """:return: config of a model with random parameters"""
    folder = tmp_path_factory.mktemp("search")
    path = write_config(folder, OPTIONS)
    assert rnn.main(["rnn.py", str(path), "++task", "initialize_model", "-v", "1"]) == 0
    for file in folder.glob("net.000.*"):
        file.rename(str(file).replace(".000.", ".001."))
    options = ["++task", "search", "++search_output_file", str(folder / "hyps"), "++search_output_file_format", "py"]
    assert rnn.main(["rnn.py", str(path), *options, "++search_data", "config:train", "-v", "1"]) == 0
    yield path
    BackendEngine.selected_engine = None


def test_dump_and_plot(tool, model):
    file = model.parent / "scores.hdf"
    options = ["--output_file", file, "--att_weights", "--cheating", "--verbosity", 1]
    status, out, err = tool("debug-dump-search-scores", model, *options)
    assert (status, err) == (0, "")
    assert out.endswith(f"wrote {file}: 3 sequences\n")
    hyps = ast.literal_eval((model.parent / "hyps").read_text())
    dataset = HDFDataset([str(file)])
    dataset.init_seq_order(1)
    for i in range(3):
        dataset.load_seqs(i, i + 1)
        best = [int(x) for x in dataset.get_data(i, "data")]
        scores = dataset.get_data(i, "scores")
        score, text = max(hyps[dataset.get_tag(i)])
        assert " ".join(map(str, best)).startswith(text)
        assert scores[-1] == pytest.approx(score, abs=1e-4)
        assert (numpy.diff(scores) <= 1e-6).all()
        assert dataset.get_data(i, "ref").tolist()[:2] == [int(dataset.get_tag(i).rpartition("-")[2]) + 1, 2]
        sizes = dataset.get_data(i, "sizes:att_weights")
        weights = dataset.get_data(i, "att_weights").reshape(sizes)
        time_axis = list(sizes).index(3 + i, 1) if 3 + i in list(sizes)[1:] else 0
        numpy.testing.assert_allclose(weights.sum(axis=time_axis), 1.0, rtol=1e-4)
    (model.parent / "vocab").write_text("</s>\na@@\nb\nc\n")
    (model.parent / "align").write_text("0 2 x\n")
    options = ["--lexicon", model.parent / "vocab", "--apply_bpe_merge", "--remove_sentence_end", "</s>"]
    plot = ["--plot", "--phone_alignment_file_pattern", model.parent / "align"]
    status, out, err = tool("debug-plot-search-scores", file, *options, *plot)
    assert (status, err) == (0, "")
    assert out.count("  best -") == out.count("  reference -") == 3
    assert "reference" in out
    assert "ab(" in out
    assert "</s>" not in out
    assert len(list(model.parent.glob("scores.hdf.*.png"))) == 3


def test_what_is_wrong(tool, model, tmp_path):
    def error(*options):
        return tool("debug-dump-search-scores", model, "--output_file", tmp_path / "a.hdf", "--verbosity", 1, *options)[
            2
        ]

    assert error("--rec_layer_name", "outputs").endswith("Did you mean 'output'?\n")
    assert error("--rec_layer_name", "encoder") == (
        "error: option '--rec_layer_name': the layer 'encoder' is no loop with layers of its own.\n"
    )
    with h5py.File(tmp_path / "b.hdf", "w"):
        pass
    assert tool("debug-plot-search-scores", tmp_path / "b.hdf")[2].endswith(
        "b.hdf': it has no 'scores', so debug-dump-search-scores did not write it.\n"
    )
    assert tool("debug-plot-search-scores", tmp_path / "c.hdf")[2] == (
        f"error: HDF file {str(tmp_path / 'c.hdf')!r} does not exist.\n"
    )
    assert tool("debug-plot-search-scores", tmp_path / "b.hdf", "--add_extra_time_frames", 1)[0] == 1


def _run_steps(graph_file, names, values, data, lengths):
    """:return: hypotheses of each sequence with their scores, as the task `search` writes them"""
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.import_graph_def(tf1.GraphDef.FromString(graph_file.read_bytes()), name="")
        graph = tf1.get_default_graph()
        for name, value in values.items():
            handle = graph.get_operation_by_name(name).outputs[0]
            session.run(tf.raw_ops.AssignVariableOp(resource=handle, value=value))
        inputs = {"data": data, "data, lengths of axis 1": lengths, "size of the batch": len(data)}
        session.run(names["init_op"], {names["inputs"][key]: x for key, x in inputs.items() if key in names["inputs"]})
        fetches = {key: names["outputs"][f"loop:{key}"] for key in ("scores", "src_beams", "lengths", "goes_on")}
        fetches["label"] = names["outputs"]["output"]
        steps = []
        while not steps or steps[-1]["goes_on"]:
            feed = {names["i"]: len(steps)} if names["i"].endswith(":0") else {}
            _, step = session.run((names["step_op"], fetches), feed)
            steps.append(step)
            assert len(steps) < 50
    found = []
    for b in range(len(data)):
        hyps = []
        for k, score in enumerate(steps[-1]["scores"][b]):
            labels, beam = [], k
            for step in reversed(steps):
                labels.insert(0, int(step["label"][b, beam]))
                beam = step["src_beams"][b, beam]
            hyps.append((float(score), labels[: steps[-1]["lengths"][b, k]]))
        found.append(sorted(hyps, key=lambda hyp: -hyp[0]))
    return found


@pytest.mark.parametrize("in_graph", [True, False])
def test_steps_of_an_exported_decoder_give_what_the_search_finds(tool, model, tmp_path, in_graph):
    files = {name: tmp_path / name for name in ("graph.pb", "step.json", "state")}
    options = ["--output_file", files["graph.pb"], "--rec_step_by_step", "output", "--search", 1, "--verbosity", 1]
    options += ["--rec_step_by_step_output_file", files["step.json"], "--output_file_state_vars_list", files["state"]]
    status, out, err = tool("compile_tf_graph", model, *options, *(["--update_i_in_graph"] if in_graph else []))
    assert (status, err) == (0, "")
    names = json.loads(files["step.json"].read_text())
    assert files["state"].read_text().split() == list(names["state_vars"].values())
    assert ("i" in names["state_vars"]) == in_graph
    names["inputs"] = dict(
        line[len("input ") :].split(": ", 1) for line in out.split("\n") if line.startswith("input ")
    )
    reader = tf.train.load_checkpoint(str(model.parent / "net.001"))
    values = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map() if name != "global_step"}
    seqs = [numpy.array(seq["data"], "float32") for seq in OPTIONS["train"]["data"]]
    lengths = numpy.array(list(map(len, seqs)), "int32")
    data = numpy.stack([numpy.pad(seq, [(0, max(lengths) - len(seq)), (0, 0)]) for seq in seqs])
    found = _run_steps(files["graph.pb"], names, values, data, lengths)
    wanted = ast.literal_eval((model.parent / "hyps").read_text())
    for i, hyps in enumerate(found):
        assert [text for _, text in wanted[f"seq-{i}"]] == [" ".join(map(str, labels)) for _, labels in hyps]
        scores = [score for score, _ in wanted[f"seq-{i}"]]
        assert [score for score, _ in hyps] == pytest.approx(scores, abs=1e-4)


def test_steps_of_what_is_no_loop(tool, model):
    options = ["--search", 1, "--verbosity", 1]
    assert tool("compile_tf_graph", model, *options, "--rec_step_by_step", "encoder")[2] == (
        "error: layer 'encoder': is no loop over layers of its own, so there are no steps.\n"
    )
    assert tool("compile_tf_graph", model, *options, "--update_i_in_graph")[2] == (
        "error: option '--update_i_in_graph': needs '--rec_step_by_step', the name of a loop.\n"
    )
