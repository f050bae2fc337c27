"""Scripts that make a model of a config with PyTorch."""

import re
from pathlib import Path

import numpy
import pytest

from returnn.config import Config, set_global_config
from returnn.engine.frontend import tasks
from returnn.util.backend_engine import BackendEngine

torch = pytest.importorskip("torch")

CONFIG = """#!rnn.py
from tests.engine.frontend import small_model
from tests.engine.frontend.small_model import *

globals().update(small_model.config(__import__("pathlib").Path({folder!r})).typed_dict)
hidden = Dim(4, name="hidden")
step_data = {{
    "h": {{"dims": [batch_dim, hidden], "feature_dim": hidden}},
    "c": {{"dims": [batch_dim, hidden], "feature_dim": hidden}},
    "encoder": {{"dims": [batch_dim, time_dim, hidden], "feature_dim": hidden}},
}}


def one_step(*, model, extern_data, **kwargs):
    out_dim = model.lstm.out_dim
    h, c = (rf.replace_dim_v2(extern_data[key], in_dim=hidden, out_dim=out_dim) for key in ("h", "c"))
    state = rf.LstmState(h=h, c=c)
    encoder = extern_data["encoder"]
    weights = rf.softmax(rf.dot(encoder, extern_data["h"], reduce=encoder.feature_dim), axis=time_dim)
    context = rf.dot(weights, encoder, reduce=time_dim)
    context = rf.replace_dim_v2(context, in_dim=encoder.feature_dim, out_dim=model.lstm.in_dim)
    out, state = model.lstm(context, state=state, spatial_dim=single_step_dim)
    ctx = rf.get_run_ctx()
    ctx.mark_as_output(model.output(out), "logits", dims=[batch_dim, classes_dim])
    ctx.mark_as_output(state.h, "new_h", dims=[batch_dim, model.lstm.out_dim])
    ctx.mark_as_output(state.c, "new_c", dims=[batch_dim, model.lstm.out_dim])


def bad_step(*, model, extern_data, **kwargs):
    def double(state):
        return [state[0] + 1, state[1] * 2]

    first = rf.reduce_max(extern_data["data"], axis=time_dim)
    _, x = rf.while_loop(lambda state: state[0] < 3, double, [rf.constant(0, dims=()), first])
    rf.get_run_ctx().mark_as_output(x, "x")


def step_of_no_format(*, model, extern_data, **kwargs):
    x = extern_data["data"].raw_tensor
    x = rf.convert_to_tensor(torch.linalg.eigvals(x[:, :, None] * x[..., None]).real, dims=extern_data["data"].dims)
    rf.get_run_ctx().mark_as_output(x, "x")


def labels_step(*, extern_data, **kwargs):
    rf.get_run_ctx().mark_as_output(extern_data["classes"], "x")


def select_step(*, model, extern_data, **kwargs):
    x = extern_data["data"]
    best = rf.reduce_argmax(x, axis=x.feature_dim)
    mask = (best != 4) & (best != rf.shift_right(best, axis=time_dim, pad_value=4))
    labels, dim = rf.masked_select(best, mask=mask, dims=[time_dim])
    rf.get_run_ctx().mark_as_output(labels, "labels", dims=[batch_dim, dim])
    rf.get_run_ctx().mark_as_output(best, "best", dims=[batch_dim, time_dim])


def names_step(*, model, extern_data, **kwargs):
    x = extern_data["data"]
    out, (spatial,) = rf.pool(x, mode="max", pool_size=2, strides=2, padding="valid", in_spatial_dims=[time_dim])
    spatial.name = "time"  # as another one
    rf.get_run_ctx().mark_as_output(out, "half", dims=[batch_dim, spatial, x.feature_dim])
    rf.get_run_ctx().mark_as_output(x * 2.0, "same", dims=[batch_dim, time_dim, x.feature_dim])


def samples_step(*, model, extern_data, **kwargs):
    x = extern_data["data"]
    raw = x.copy_transpose([batch_dim, time_dim, x.feature_dim]).raw_tensor
    windows = torch.nn.functional.conv1d(raw.transpose(1, 2), torch.ones(3, 9, 100))
    out = rf.convert_to_tensor(windows.amax(dim=2), dims=[batch_dim, Dim(3, name="windows")])
    rf.get_run_ctx().mark_as_output(out, "out")


import torch
from returnn.tensor import single_step_dim
"""


def run_task(task, path):
    """:param path: file of a config"""
    made = Config()
    made.load_file(str(path))
    set_global_config(made)
    before = BackendEngine.selected_engine
    BackendEngine.select_engine(config=made)
    task(made)
    BackendEngine.selected_engine = before
    set_global_config(None)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """:return: file of a config, and a checkpoint of it"""
    folder = tmp_path_factory.mktemp("model")
    path = folder / "my.config"
    path.write_text(CONFIG.format(folder=str(folder)), encoding="utf8")
    run_task(tasks.train, path)
    return path, folder / "net.001.pt"


def test_model_and_optimizer(tool, model):
    path, _ = model
    status, out, err = tool("torch_inspect_checkpoint_and_opt", path)
    assert (status, err) == (0, "")
    lines = [line.split()[:2] for line in out.splitlines()]
    assert ["conv.filter", "float32[3,"] in lines
    assert ["optimizer.conv.filter.exp_avg", "float32[3,"] in lines
    assert out.endswith("epoch: 1\nstep: 2\noptimizer: Adam\n")
    assert "optimizer." not in tool("torch_inspect_checkpoint_and_opt", path, "--interesting_exclude", "optimizer.")[1]
    shown = tool("torch_inspect_checkpoint_and_opt", path, "--key", "optimizer.output.bias.step")[1]
    assert shown == "optimizer.output.bias.step: mean 2, std 0, min 2, max 2\n2.0\n"
    missing = tool("torch_inspect_checkpoint_and_opt", path, "++model", path.parent / "other")
    assert missing[2] == "error: option 'model': there is no checkpoint yet.\n"
    assert tool("torch_inspect_checkpoint_and_opt", path, "--cwd", path)[2].startswith("error: option '--cwd': ")


@pytest.mark.parametrize("inputs", ["data", None])
def test_onnx_of_a_whole_model(tool, model, tmp_path, inputs):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    file = tmp_path / "model.onnx"
    options = ["--verbosity", 1, *(["--input_names", inputs] if inputs else ["--output_names", "output,best"])]
    status, out, err = tool("torch_export_to_onnx", *model, file, *options)
    assert (status, err) == (0, "")
    assert "run by onnxruntime, it differs by " in out
    assert "mixed precision" not in out
    session = runtime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    data = numpy.random.RandomState(1).normal(size=(4, 9, 9)).astype("float32")
    lengths = numpy.array([9, 3, 5, 1], dtype="int32")
    (together,) = session.run(["output"], {"data": data, "data:size1": lengths})
    for i, length in enumerate(lengths):
        feed = {"data": data[i : i + 1, :length], "data:size1": lengths[i : i + 1]}
        numpy.testing.assert_allclose(session.run(["output"], feed)[0][0], together[i, :length], atol=1e-5)
    assert ("output output:size1" in out) == (inputs is not None)


def test_axes_of_onnx_have_the_names_of_their_dims(tool, model, tmp_path):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")

    def shapes(*options):
        file = tmp_path / "names.onnx"
        status, _, err = tool("torch_export_to_onnx", *model, file, "--verbosity", 1, *options)
        assert (status, err) == (0, "")
        session = runtime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
        return {node.name: node.shape for node in (*session.get_inputs(), *session.get_outputs())}

    found = shapes("--forward_step", "names_step", "--input_names", "data")
    time = found["data"][1]
    assert found == {
        "data": ["batch", time, 9],
        "data:size1": ["batch"],
        "half": ["batch", "time_2" if time == "time" else "time", 9],
        "half:size1": ["batch"],
        "same": ["batch", time, 9],
        "same:size1": ["batch"],
    }
    found = shapes("--forward_step", "one_step", "--extern_data", "step_data")
    assert {tuple(found[name]) for name in ("h", "c", "new_h", "new_c")} == {("batch", 4)}


def test_onnx_of_a_model_in_mixed_precision_says_that_it_is_not(tool, model, tmp_path):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    file = tmp_path / "model.onnx"
    outs = []
    for options in ([], ["++torch_amp", "bfloat16"]):
        status, out, err = tool("torch_export_to_onnx", *model, file, "--verbosity", 1, *options)
        assert (status, err) == (0, "")
        session = runtime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
        data = numpy.random.RandomState(1).normal(size=(1, 9, 9)).astype("float32")
        outs.append(session.run(["output"], {"data": data, "data:size1": numpy.array([9], dtype="int32")})[0])
    assert "it is float32; the tasks, and returnn.load, compute in mixed precision, as 'torch_amp' says\n" in out
    numpy.testing.assert_array_equal(*outs)


def test_onnx_of_layers_is_not_possible(tool, tmp_path):
    path = tmp_path / "layers.config"
    path.write_text("#!rnn.py\nnetwork = {}\n")
    pytest.importorskip("onnx")
    error = tool("torch_export_to_onnx", path, "net.001", tmp_path / "a.onnx")[2]
    assert error.startswith("error: ONNX: models in PyTorch become it")
    assert "'returnn tool export-model' makes" in error


def test_onnx_of_one_step_of_a_decoder(tool, model, tmp_path):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    file = tmp_path / "step.onnx"
    options = ["--forward_step", "one_step", "--extern_data", "step_data"]
    status, _, err = tool("torch_export_to_onnx", *model, file, *options, "--verbosity", 1)
    assert (status, err) == (0, "")
    session = runtime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    encoder = numpy.random.RandomState(1).normal(size=(2, 6, 4)).astype("float32")
    sizes = numpy.array([6, 2], dtype="int32")

    def run(rows, frames):
        state = {name: numpy.zeros((len(rows), 4), "float32") for name in ("h", "c")}
        steps = []
        for _ in range(3):
            feed = {"encoder": encoder[rows][:, :frames], "encoder:size1": sizes[rows], **state}
            logits, state["h"], state["c"] = session.run(["logits", "new_h", "new_c"], feed)
            steps.append(logits)
        return numpy.stack(steps, axis=1)

    together = run([0, 1], 6)
    numpy.testing.assert_allclose(run([1], 2)[0], together[1], atol=1e-6)
    assert abs(together[:, 0] - together[:, 2]).max() > 1e-3


def test_onnx_of_samples_in_long_windows(tool, model, tmp_path):
    """With the first example, of a few frames, not even one window is full."""
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    file = tmp_path / "samples.onnx"
    status, _, err = tool("torch_export_to_onnx", *model, file, "--forward_step", "samples_step", "--verbosity", 1)
    assert (status, err) == (0, "")
    session = runtime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    data = numpy.random.RandomState(1).normal(size=(2, 300, 9)).astype("float32")
    feed = {"data": data, "data:size1": numpy.array([300, 300], "int32")}
    (found,) = session.run(["out"], {entry.name: feed[entry.name] for entry in session.get_inputs()})
    windows = numpy.stack([data[:, i : i + 100].sum(axis=(1, 2)) for i in range(201)])
    numpy.testing.assert_allclose(found, numpy.repeat(windows.max(axis=0)[:, None], 3, axis=1), rtol=1e-4)


def test_what_cannot_be_exported(tool, model, tmp_path):
    pytest.importorskip("onnx")
    file = tmp_path / "model.onnx"
    error = tool("torch_export_to_onnx", *model, file, "--forward_step", "bad_step", "--verbosity", 1)[2]
    assert "Loops and conditions over values are not possible; export one step of a decoder with its state." in error
    assert not file.exists()
    error = tool("torch_export_to_onnx", *model, file, "--forward_step", "select_step", "--verbosity", 1)[2]
    assert error.startswith(
        "error: the step cannot be exported to ONNX: onnxruntime fails on a batch of another size: "
    )
    assert "\n  Sizes that depend on values, as of rf.masked_select, are fixed there. '--output_names' says" in error
    assert not file.exists()
    _, out, error = tool("torch_export_to_onnx", *model, file, "--forward_step", "step_of_no_format", "--verbosity", 1)
    assert "'aten::linalg_eigvals'" in error
    place = re.search(r"^error: the step cannot be exported to ONNX: in (.*), line (\d+), step_of_no_format: ", error)
    assert "linalg" in Path(place[1]).read_text(encoding="utf8").splitlines()[int(place[2]) - 1]
    assert error.endswith("\n  ONNX has no such operation. Others of PyTorch or rf may compute the same.\n")
    assert out == ""
    path = tmp_path / "labels.config"
    path.write_text(Path(model[0]).read_text() + 'extern_data["classes"]["available_for_inference"] = False\n')
    error = tool("torch_export_to_onnx", path, model[1], file, "--forward_step", "labels_step", "--verbosity", 1)[2]
    assert "there is no data 'classes' here, as 'extern_data' has it with available_for_inference False" in error
    error = tool("torch_export_to_onnx", *model, file, "--forward_step", "no_step", "--verbosity", 1)[2]
    assert error == "error: option 'no_step': there is no function of this name in the config.\n"
    error = tool("torch_export_to_onnx", *model, file, "--output_names", "outputs", "--verbosity", 1)[2]
    assert error.startswith("error: option '--output_names': there is no output 'outputs'.\n  Did you mean 'output'")


TRANSFORMER = """#!rnn.py
import returnn.frontend as rf
import torch
from returnn.tensor import Dim, batch_dim

backend = "torch"
behavior_version = 30
task = "initialize_model"
model = {model!r}
time_dim, target_time, feature_dim = Dim(None, name="time"), Dim(None, name="target"), Dim(8, name="feature")
extern_data = {{
    "data": {{"dims": [batch_dim, time_dim, feature_dim], "feature_dim": feature_dim}},
    "before": {{"dims": [batch_dim, target_time, feature_dim], "available_for_inference": True}},
}}


def get_model(**kwargs):
    options = {{"dim_feedforward": 16, "batch_first": True, "norm_first": {norm_first}}}
    layer = torch.nn.TransformerEncoderLayer(8, 2, **options)
    encoder = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=not {norm_first})
    return torch.nn.Transformer(8, 2, 2, 2, custom_encoder=encoder, **options)


def forward_step(*, model, extern_data, **kwargs):
    data, before = extern_data["data"].raw_tensor, extern_data["before"].raw_tensor
    padded = torch.arange(data.shape[1])[None] >= time_dim.dyn_size_ext.raw_tensor[:, None]
    mask = torch.triu(torch.ones(before.shape[1], before.shape[1], dtype=torch.bool), diagonal=1)
    out = model(data, before, tgt_mask=mask, src_key_padding_mask=padded, memory_key_padding_mask=padded)
    rf.get_run_ctx().mark_as_output(out, "out", dims=[batch_dim, target_time, feature_dim])
"""


@pytest.mark.parametrize("norm_first", [False, True])
def test_onnx_of_a_transformer_of_pytorch(norm_first, tool, tmp_path):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    path, file = tmp_path / "transformer.config", tmp_path / "model.onnx"
    path.write_text(TRANSFORMER.format(model=str(tmp_path / "net"), norm_first=norm_first), encoding="utf8")
    run_task(tasks.initialize_model, path)
    status, _, err = tool("torch_export_to_onnx", path, tmp_path / "net.000.pt", file, "--verbosity", 1)
    assert (status, err) == (0, "")
    session = runtime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    rng = numpy.random.RandomState(1)
    data, labels = (rng.normal(size=(2, size, 8)).astype("float32") for size in (6, 5))

    def run(rows, frames):
        sizes = numpy.asarray([6, 3], "int32")[rows]
        feed = {
            "data": data[rows][:, :frames],
            "data:size1": sizes,
            "before": labels[rows],
            "before:size1": sizes * 0 + 5,
        }
        used = {node.name for node in session.get_inputs()}
        return session.run(["out"], {name: value for name, value in feed.items() if name in used})[0]

    numpy.testing.assert_allclose(run([1], 3)[0], run([0, 1], 6)[1], atol=1e-5)


CONFORMER = """#!rnn.py
import returnn.frontend as rf
from returnn.frontend.encoder.conformer import ConformerConvSubsample, ConformerEncoder
from returnn.tensor import Dim, batch_dim

backend = "torch"
behavior_version = 30
task = "initialize_model"
model = {model!r}
time_dim, feature_dim, model_dim = Dim(None, name="time"), Dim(9, name="feature"), Dim(8, name="model")
extern_data = {{"data": {{"dims": [batch_dim, time_dim, feature_dim], "feature_dim": feature_dim}}}}


def get_model(**kwargs):
    channels = [Dim(2, name="channels0"), Dim(2, name="channels1")]
    subsample = ConformerConvSubsample(
        feature_dim, out_dims=channels, filter_sizes=[(3, 3), (3, 3)], strides=[(2, 1), (1, 1)]
    )
    return ConformerEncoder(
        feature_dim, model_dim, num_layers=1, num_heads=2, conv_kernel_size=3, input_layer=subsample
    )


def forward_step(*, model, extern_data, **kwargs):
    encoded, frames_dim = model(extern_data["data"], in_spatial_dim=time_dim)
    rf.get_run_ctx().mark_as_output(encoded, "encoded", dims=[batch_dim, frames_dim, model_dim])
"""


DECODER = """#!rnn.py
import returnn.frontend as rf
from returnn.frontend.decoder.transformer import TransformerDecoder
from returnn.tensor import Dim, batch_dim

backend = "torch"
behavior_version = 30
task = "initialize_model"
model = {model!r}
time_dim, labels_dim, model_dim = Dim(None, name="time"), Dim(9, name="labels"), Dim(8, name="model")
extern_data = {{"data": {{"dims": [batch_dim, time_dim], "sparse_dim": labels_dim}}}}


def get_model(**kwargs):
    return TransformerDecoder(None, labels_dim, model_dim, num_layers=1, num_heads=2, share_embedding=True)


def forward_step(*, model, extern_data, **kwargs):
    state = model.default_initial_state(batch_dims=[batch_dim])
    logits, _ = model(extern_data["data"], spatial_dim=time_dim, state=state)
    rf.get_run_ctx().mark_as_output(logits, "logits", dims=[batch_dim, time_dim, labels_dim])
"""


@pytest.mark.parametrize(("name", "text"), [("conformer", CONFORMER), ("decoder", DECODER)])
def test_onnx_of_a_model_of_modules(name, text, tool, tmp_path):
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    path = tmp_path / f"{name}.config"
    path.write_text(text.format(model=str(tmp_path / "net")), encoding="utf8")
    run_task(tasks.initialize_model, path)
    checkpoint = tmp_path / "net.000.pt"
    status, out, err = tool("torch_export_to_onnx", path, checkpoint, tmp_path / "x.onnx", "--verbosity", 1)
    assert (status, err) == (0, "")
    assert "run by onnxruntime, it differs by " in out
