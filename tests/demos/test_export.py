"""The graphs of all demos, as files: TensorFlow alone runs them, for training, for the output, and for search."""

import re
from pathlib import Path

import numpy
import pytest
import tensorflow as tf

from tests.tools.conftest import config_file, tool

__all__ = ["config_file", "tool"]

tf1 = tf.compat.v1
ROOT = Path(__file__).parent.parent.parent
CONFIGS = sorted((ROOT / "demos").glob("*/*.config"))
CONFIGS = [path for path in CONFIGS if "get_model" not in path.read_text("utf8")]  # the others have no net dict
MODES = {"forward": [], "search": ["--search", 1], "training": ["--train", 1, "--eval", 1]}
WITHOUT_LABELS_NOTHING = "transducer"  # all of its layers need them
ASKS_PYTHON = "kenlm_fusion"  # in search
_SEARCH = re.compile(r'"(choice|ctc_decode)"|search_data')  # what a config with a search has in it
CASES = [
    pytest.param(config, mode, id=f"{config.stem}-{mode}")
    for config in CONFIGS
    for mode in MODES
    if mode == "training" or config.stem != WITHOUT_LABELS_NOTHING
    if mode != "search" or (config.stem != ASKS_PYTHON and _SEARCH.search(config.read_text("utf8")))
]


@pytest.mark.parametrize(("config", "mode"), CASES)
def test_graph_of_a_demo_runs(config, mode, tool, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "graph.pb"
    status, out, err = tool("compile_tf_graph", config, *MODES[mode], "--output_file", file, "--verbosity", 1)
    assert (status, err) == (0, "")
    inputs = _names(out, "input")
    outputs = _names(out, "output")
    assert "data" in inputs or mode == "forward"
    assert outputs
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        tf1.import_graph_def(tf1.GraphDef.FromString(file.read_bytes()), name="")
        session.run([_assign_random(op) for op in graph.get_operations() if op.type == "VarHandleOp"])
        label_of_frames = not any(word in config.read_text("utf8") for word in ("choice", "ctc", "transducer"))
        feed = {
            name: _value(what, graph.get_tensor_by_name(name), label_of_frames=label_of_frames)
            for what, name in inputs.items()
        }
        values = session.run(outputs, feed)
    for what, value in values.items():
        assert value is None or numpy.isfinite(value).all(), what
    if mode == "training":
        assert values["update of the parameters"] is None
        assert any(what.startswith("loss ") for what in values)


def test_a_search_with_ken_lm_is_no_graph(tool, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = next(path for path in CONFIGS if path.stem == ASKS_PYTHON)
    status, _, err = tool("compile_tf_graph", config, *MODES["search"], "--output_file", tmp_path / "graph.pb")
    assert status == 1
    assert "calls a Python function" in err


def test_a_search_of_a_network_without_one_is_refused(tool, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = next(path for path in CONFIGS if path.stem == "lstm")
    status, _, err = tool("compile_tf_graph", config, *MODES["search"], "--output_file", tmp_path / "graph.pb")
    assert status == 1
    assert "search" in err
    assert not (tmp_path / "graph.pb").exists()


def _names(text, kind):
    """:return: what it is -> name of the tensor or operation, of one kind of lines"""
    lines = [line.removeprefix(f"{kind} ") for line in text.splitlines() if line.startswith(f"{kind} ")]
    return dict(line.rsplit(": ", 1) for line in lines)


def _assign_random(handle):
    dtype, shape = handle.get_attr("dtype"), handle.get_attr("shape")
    sizes = [2 if dim.size < 0 else dim.size for dim in shape.dim]  # a state that is kept has one for each sequence
    value = numpy.random.RandomState(1).normal(size=sizes) * 0.1
    return tf.raw_ops.AssignVariableOp(resource=handle.outputs[0], value=tf.cast(value, dtype))


def _value(what, placeholder, *, label_of_frames):
    """:return: of two sequences, of six frames and of four; targets have a label of each frame, or one label"""
    if what == "size of the batch":
        return 2
    if what == "seq_tag":
        return ["one", "two"]
    is_single = what.startswith("classes") and not label_of_frames
    if "lengths" in what:
        return [1, 1] if is_single else [6, 4]
    return numpy.ones([2, 1 if is_single else 6, *placeholder.shape[2:]], placeholder.dtype.as_numpy_dtype)
