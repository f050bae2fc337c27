"""Trainings of a small model with PyTorch: what they write, and what they go on from."""

import ast
import json
import os
import resource
import shutil
import signal
import subprocess
import sys

import h5py
import numpy
import pytest
import torch

import returnn.frontend as rf
from returnn.config import Config, set_global_config
from returnn.datasets.core.registry import init_dataset
from returnn.datasets.hdf import HDFDataset
from returnn.engine.frontend import tasks
from returnn.engine.frontend.extern_data import extern_data_of_config
from returnn.engine.frontend.references import References
from returnn.engine.hypothesis_files import read_hypotheses
from returnn.engine.learning_rate_file import read_learning_rate_file, write_learning_rate_file
from returnn.engine.run.non_finite import NonFiniteError
from returnn.engine.score_names import find_score
from returnn.forward_iface import ForwardCallbackIface
from returnn.log import log
from returnn.tensor import Dim, batch_dim
from returnn.torch import checkpoint as checkpoints
from returnn.torch.engine import Engine
from returnn.torch.engine.parameters import model_parameters
from returnn.torch.unfinished import UnfinishedCheckpoints
from returnn.util.backend_engine import BackendEngine
from returnn.util.errors import ConfigError, UserError
from returnn.util.files.checkpoint_files import CheckpointError
from tests.engine.frontend import small_model
from tests.engine.frontend.small_model import classes_dim, time_dim

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.fixture(autouse=True)
def backend():
    log.initialize(verbosity=[3])
    before = BackendEngine.selected_engine
    yield
    set_global_config(None)
    rf.select_backend_numpy()
    BackendEngine.selected_engine = before
    classes_dim.vocab = None  # which a config has given to the dim that all files share


def config(folder, **options):
    made = small_model.config(folder, **options)
    set_global_config(made)
    BackendEngine.select_engine(config=made)
    return made


def parameters(name):
    return torch.load(f"{name}.pt", weights_only=True)["model"]


def assert_same(one, other):
    assert list(one) == list(other)
    for name, value in one.items():
        assert torch.equal(value, other[name]), name


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """:return: folder with two epochs"""
    folder = tmp_path_factory.mktemp("trained")
    made = small_model.config(folder, num_epochs=2)
    set_global_config(made)
    BackendEngine.select_engine(config=made)
    tasks.train(made)
    return folder


def lines_of_record(folder):
    return [json.loads(line) for line in (folder / "net.run.jsonl").read_text().splitlines()]


def test_record_of_a_training(trained):
    start, first, second, end = lines_of_record(trained)
    assert (start["event"], start["epoch"], start["num_epochs"], end["event"]) == ("start", 1, 2, "end")
    assert start["options"]["train"] == {"class": "Task12AXDataset", "num_seqs": 20}
    assert start["options"]["get_model"] == "function get_model"
    assert "error" not in end
    for epoch, line in enumerate([first, second], start=1):
        assert (line["event"], line["epoch"], line["num_steps"], line["num_seqs"]) == ("epoch", epoch, 2, 20)
        assert (line["learning_rate"], sorted(line["scores"])) == (
            0.01,
            ["dev_loss_ce", "dev_loss_fer", "train_loss_ce", "train_loss_fer"],
        )
        assert 0 < line["data_wait_s"] < line["duration_s"]
        assert line["memory_bytes"] > 10**7


def test_learning_rate_file(tmp_path, capsys):
    """It names scores as the original does; what is only an error is known to what reads it."""
    file = tmp_path / "rates"
    made = config(tmp_path, learning_rate_file=str(file), learning_rate_control_error_measure="dev_loss_fer")
    tasks.train(made)
    data = read_learning_rate_file(file)[1]
    assert sorted(data.error) == ["dev_loss_ce", "dev_loss_fer", "train_loss_ce", "train_loss_fer"]
    assert data.as_error == ["fer"]
    assert find_score("dev_score", data.error, data.as_error) == "dev_loss_ce"
    assert find_score("dev_error", data.error, data.as_error) == "dev_loss_fer"
    out = capsys.readouterr().out
    assert f"epoch 1, dev_loss_ce {data.error['dev_loss_ce']:.4g}, dev_loss_fer" in out
    assert "* best dev loss fer" in out


def test_content_of_model_files(trained):
    content = torch.load(trained / "net.002.pt", weights_only=True)
    assert content["epoch"] == 2
    assert content["step"] == 4
    assert content["effective_learning_rate"] == 0.01
    assert content["model"]["conv.filter"].shape == (3, 9, 4)
    assert "state" in torch.load(trained / "net.002.opt.pt", weights_only=True)["optimizer"]


@pytest.mark.parametrize("file_format", ["pt", "safetensors"])
def test_a_full_disk_is_one_error_and_what_was_there_stays(file_format, trained, tmp_path):
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    before = {path.name: path.read_bytes() for path in tmp_path.glob("net.00*")}
    engine = Engine(config(tmp_path, torch_checkpoint_format=file_format))
    engine.init_train_from_config()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, limits[1]))
    try:
        with pytest.raises(CheckpointError) as error:
            engine.save_model(str(tmp_path / "net.003"))
        unfinished = UnfinishedCheckpoints()
        with pytest.raises(CheckpointError, match=r"cannot be written: .*File too large"):
            unfinished.write(str(tmp_path / "net.003.unfinished"), engine.trained_model.snapshot(), "position")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    first, second = str(error.value).splitlines()
    assert first.startswith(f"checkpoint '{tmp_path}/net.003' cannot be written: cannot write the file")
    assert first.endswith("File too large.")
    assert second == "  Checkpoints that are there are as they were."
    assert {path.name: path.read_bytes() for path in tmp_path.glob("net.00*")} == before
    assert not list(tmp_path.glob(".*.tmp"))


def test_a_resumed_training_ends_with_the_same_parameters(trained, tmp_path):
    tasks.train(config(tmp_path, num_epochs=1))
    tasks.train(config(tmp_path, num_epochs=2))
    assert_same(parameters(trained / "net.002"), parameters(tmp_path / "net.002"))


@pytest.mark.parametrize("options", [
    {"torch_dataloader_opts": {"num_workers": 2}},
    {"torch_checkpoint_format": "safetensors"},
])  # fmt: skip
def test_how_data_comes_and_models_are_kept_changes_nothing(options, trained, tmp_path):
    tasks.train(config(tmp_path, **options))
    tasks.train(config(tmp_path, num_epochs=2, **options))
    engine = Engine(config(tmp_path, num_epochs=2, task="eval"))
    engine.init_network_from_config()
    assert_same(parameters(trained / "net.002"), dict(engine.runner.parameters))


@pytest.mark.parametrize("num_workers", [1, 2])
def test_workers_that_load_batches_have_data_sets_with_processes(num_workers, trained, tmp_path):
    data = {"class": "MultiProcDataset", "dataset": small_model.TRAIN, "num_workers": 2, "buffer_size": 2}
    tasks.train(config(tmp_path, num_epochs=2, train=data, torch_dataloader_opts={"num_workers": num_workers}))
    assert_same(parameters(trained / "net.002"), parameters(tmp_path / "net.002"))


def test_the_file_that_is_named_is_loaded_also_beside_one_of_another_format(trained, tmp_path):
    checkpoints.save_checkpoint(
        str(tmp_path / "mean"),
        parameters=parameters(trained / "net.002"),
        info={},
        optimizer=None,
        file_format="safetensors",
    )
    shutil.copy(trained / "net.001.pt", tmp_path / "mean.pt")
    for name, wanted in (("mean.safetensors", "net.002"), ("mean.pt", "net.001")):
        engine = Engine(config(tmp_path, task="eval", load=str(tmp_path / name)))
        engine.init_network_from_config()
        assert_same(parameters(trained / wanted), dict(engine.runner.parameters))


def test_a_killed_training_ends_with_the_same_parameters(tmp_path):
    text = """#!rnn.py
import os, signal
from tests.engine.frontend import small_model
from tests.engine.frontend.small_model import *

globals().update(small_model.config(__import__("pathlib").Path("model")).typed_dict)
num_epochs = 2
steps = []

def train_step(*, model, extern_data, **kwargs):
    steps.append(1)
    if str(len(steps)) == os.environ.get("KILL_AT_STEP"):
        os.kill(os.getpid(), signal.SIGKILL)
    small_model.train_step(model=model, extern_data=extern_data)
"""
    (tmp_path / "train.config").write_text(text)

    def run(**environment):
        env = {**os.environ, "PYTHONPATH": ROOT, "CUDA_VISIBLE_DEVICES": "", **environment}
        command = [sys.executable, os.path.join(ROOT, "rnn.py"), "train.config"]
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
        return done.returncode, done.stdout + done.stderr

    status, output = run(KILL_AT_STEP="5")  # of the steps, 2 train and 1 dev per epoch
    assert status == -signal.SIGKILL, output
    assert sorted(name for name in os.listdir(tmp_path / "model") if name.endswith(".pt")) == [
        "net.001.opt.pt", "net.001.pt",
    ]  # fmt: skip
    status, output = run()
    assert status == 0, output
    assert "start training at epoch 2 of 2" in output
    events = [(line["event"], line.get("epoch")) for line in lines_of_record(tmp_path / "model")]
    assert events == [("start", 1), ("epoch", 1), ("start", 2), ("epoch", 2), ("end", None)]
    other = tmp_path / "other"
    other.mkdir()
    tasks.train(config(other, num_epochs=2))
    assert_same(parameters(other / "net.002"), parameters(tmp_path / "model" / "net.002"))


@pytest.mark.parametrize("name", ["ce", None])
def test_scores_of_eval_are_those_of_the_training(name, trained, tmp_path, capsys):
    tasks.evaluate(config(
        trained, task="eval", eval_output_file=str(tmp_path / "scores"),
        eval_output_file_per_seq=str(tmp_path / "seqs"), loss_name=name, output_per_seq_format=["score", "seq_len"],
    ))  # fmt: skip
    scores = eval((tmp_path / "scores").read_text())
    rows = [line.split(";") for line in (tmp_path / "seqs").read_text().splitlines()]
    total = sum(float(score) * int(length) for score, length in rows)
    assert total / sum(int(length) for _, length in rows) == pytest.approx(scores["dev_loss_ce"])
    assert "dev: error fer" in capsys.readouterr().out


@pytest.mark.parametrize(("name", "has_not", "other"), [("ce", "error", "fer"), ("fer", "score", "ce")])
def test_losses_that_have_what_another_one_has_not_are_named(name, has_not, other, trained, tmp_path):
    options = {"eval_output_file_per_seq": str(tmp_path / "seqs"), "output_per_seq_format": ["score", "error"]}
    with pytest.raises(
        ConfigError, match=f"the loss '{name}' has no '{has_not}'.\n.*as_error=True have one: '{other}'"
    ):
        tasks.evaluate(config(trained, task="eval", loss_name=name, **options))


class Outputs(ForwardCallbackIface):
    def __init__(self):
        self.by_tag = {}

    def init(self, *, model):
        self.model = model

    def process_seq(self, *, seq_tag, outputs):
        self.by_tag[seq_tag] = outputs

    def finish(self):
        self.is_finished = True


def forward_options(folder, **options):
    data = {"class": "Task12AXDataset", "num_seqs": 5, "fixed_random_seed": 1}
    return config(folder, task="forward", forward_data=data, search_data=data, **options)


def test_outputs_of_each_sequence_do_not_depend_on_the_batch(trained):
    together, alone = Outputs(), Outputs()
    tasks.forward(forward_options(trained, forward_callback=together))
    tasks.forward(forward_options(trained, forward_callback=lambda: alone, max_seqs=1))
    assert together.is_finished
    assert together.model.conv is not None
    assert list(together.by_tag) == list(alone.by_tag)
    assert len({out["output"].raw_tensor.shape for out in together.by_tag.values()}) > 1
    for tag, outputs in together.by_tag.items():
        numpy.testing.assert_allclose(outputs["output"].raw_tensor, alone.by_tag[tag]["output"].raw_tensor, atol=1e-6)
        assert outputs["best"].sparse_dim == classes_dim


def test_outputs_in_an_hdf_file(trained, tmp_path):
    filename = str(tmp_path / "out.hdf")
    tasks.forward(forward_options(trained, output_file=filename))
    dataset = HDFDataset([filename])
    dataset.initialize()
    dataset.init_seq_order(1)
    dataset.load_seqs(0, 5)
    assert dataset.num_seqs == 5
    assert dataset.get_data(0, "data").shape[1] == 2
    with pytest.raises(ConfigError, match="exists"):
        tasks.forward(forward_options(trained, output_file=filename))


def test_hypotheses(trained, tmp_path):
    filename = str(tmp_path / "hyps.py")
    tasks.search(forward_options(
        trained, search_output_layer="best", search_output_file=filename, search_output_file_format="py",
    ))  # fmt: skip
    hypotheses = read_hypotheses(filename)
    assert len(hypotheses) == 5
    assert set(" ".join(hypotheses.values()).split()) <= {"0", "1"}


def test_a_search_writes_and_scores_hypotheses_beside_a_callback(trained, tmp_path, capsys):
    wanted = {"search_output_file": str(tmp_path / "hyps.py"), "search_metrics": ["wer"]}
    for options in ({}, wanted):
        outputs = Outputs()
        made = search_options(trained, tmp_path, forward_callback=lambda outputs=outputs: outputs)
        made.update({"search_output_file": None, **options})
        tasks.search(made)
        log.flush()
        assert len(outputs.by_tag) == 5
        assert outputs.is_finished
        assert outputs.model.conv is not None
        assert ("search: WER" in capsys.readouterr().out) is bool(options)
    assert set(read_hypotheses(str(tmp_path / "hyps.py"))) == set(outputs.by_tag)
    made.update({"search_output_layer": ["bst"]})
    with pytest.raises(ConfigError, match="option 'search_output_layer': there is no output 'bst'"):
        tasks.search(made)


def test_statistics_of_outputs(trained, tmp_path, capsys):
    tasks.analyze(
        config(
            tmp_path, task="analyze", load=str(trained / "net.002"), analyze_dataset="dev", statistics=["mean", "max"]
        )
    )
    out = capsys.readouterr().out
    assert "output mean: [" in out
    assert "output std_dev" not in out


def test_priors_are_the_mean_of_probabilities(trained, tmp_path, capsys):
    file = tmp_path / "prior.txt"
    options = {
        "task": "compute_priors",
        "load": str(trained / "net.002"),
        "analyze_dataset": "dev",
        "output_file": str(file),
    }
    tasks.compute_priors(config(tmp_path, **options))
    log_prior = numpy.loadtxt(file)
    assert numpy.exp(log_prior).sum() == pytest.approx(1.0)
    num = config(tmp_path, **options).typed_dict["dev"]
    part = {**num, "partition_epoch": 2}
    tasks.compute_priors(config(tmp_path, **{**options, "dev": part, "output_file": str(tmp_path / "all.txt")}))
    numpy.testing.assert_allclose(numpy.loadtxt(tmp_path / "all.txt"), log_prior, rtol=1e-5)
    assert "wrote the log prior of 5 sequences to" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "option 'output_file' is required"),
        ({"output_file": "prior", "forward_output_layer": "best"}, "has no feature dim, expected probabilities"),
        ({"output_file": "prior", "forward_output_layer": "outptu"}, "there is no output 'outptu'"),
    ],
    ids=["no file", "labels", "unknown"],
)
def test_errors_of_priors(options, message, trained, tmp_path):
    with pytest.raises(ConfigError, match=message):
        tasks.compute_priors(
            config(tmp_path, task="compute_priors", load=str(trained / "net.002"), analyze_dataset="dev", **options)
        )


def test_a_batch_is_split_if_memory_is_not_enough(trained, capsys):
    sizes = []

    def forward_step(*, model, extern_data, **kwargs):
        size = int(rf.get_default_dim_size_device() is not None and extern_data["data"].raw_tensor.shape[0])
        sizes.append(size)
        if size > 2:
            raise torch.OutOfMemoryError("out of memory")
        small_model.forward_step(model=model, extern_data=extern_data)

    whole, split = Outputs(), Outputs()
    tasks.forward(forward_options(trained, forward_callback=whole))
    options = {"forward_step": forward_step, "forward_auto_split_batch_on_oom": True}
    tasks.forward(forward_options(trained, forward_callback=split, **options))
    assert sizes == [5, 2, 3, 1, 2]
    assert list(whole.by_tag) == list(split.by_tag)
    for tag, outputs in whole.by_tag.items():
        numpy.testing.assert_allclose(outputs["output"].raw_tensor, split.by_tag[tag]["output"].raw_tensor, atol=1e-6)
    with pytest.raises(torch.OutOfMemoryError):
        tasks.forward(forward_options(trained, forward_callback=split, forward_step=forward_step))


@pytest.mark.parametrize(("make", "message"), [
    (lambda x: x * float("nan"), "The first module with a value that is not finite: 'norm' (LayerNorm)."),
    (lambda x: rf.sqrt(x * 0.0), "It is that of "),
])  # fmt: skip
def test_what_is_not_finite_is_named(make, message, tmp_path):
    class Norm(rf.LayerNorm):
        def __call__(self, source):
            return make(super().__call__(source))

    def get_model(**kwargs):
        model = small_model.Model()
        model.norm.__class__ = type("LayerNorm", (Norm,), {})
        return model

    with pytest.raises(NonFiniteError) as info:
        tasks.train(config(tmp_path, get_model=get_model))
    assert message in str(info.value)
    assert "train, epoch 1, step 0, sequences 'seq-0', 'seq-1'" in str(info.value)
    assert os.listdir(tmp_path) != []
    assert [name for name in os.listdir(tmp_path) if name.endswith(".pt")] == ["net.001.broken.pt"]


def test_parameter_that_an_update_has_made_not_finite_is_named(tmp_path):
    class Broken(torch.optim.SGD):
        def step(self, *args, **kwargs):
            super().step(*args, **kwargs)
            with torch.no_grad():
                self.param_groups[0]["params"][0].fill_(float("nan"))

    with pytest.raises(NonFiniteError) as info:
        tasks.train(config(tmp_path, optimizer={"class": Broken}))
    first = next(iter(small_model.Model().named_parameters()))[0]
    assert "train, epoch 1, step 1, sequences " in str(info.value)
    assert f"  The parameter {first!r} is not finite itself, though loss and gradients of each update were.\n" in (
        str(info.value)
    )
    assert "Look at 'optimizer' and its options" in str(info.value)


@pytest.mark.parametrize("amp", ["bfloat16", {"dtype": "float16"}])
def test_mixed_precision_trains_to_about_the_same(amp, trained, tmp_path):
    tasks.train(
        config(
            tmp_path, num_epochs=2, torch_amp=amp, grad_scaler={"init_scale": 256.0} if isinstance(amp, dict) else None
        )
    )
    wanted, found = parameters(trained / "net.002"), parameters(tmp_path / "net.002")
    for name, value in found.items():
        assert value.dtype == torch.float32
        # In the mean: Adam goes as far with a gradient near 0, whose sign depends on rounding, as with any other.
        assert float((value - wanted[name]).abs().mean()) < 0.005, name
    assert any(not torch.equal(value, wanted[name]) for name, value in found.items())


def test_mixed_precision_counts_in_all_tasks(trained, tmp_path):
    found = []
    for amp in (None, "bfloat16"):
        scores, outputs = str(tmp_path / f"scores.{amp}"), str(tmp_path / f"out.{amp}.hdf")
        tasks.evaluate(config(trained, task="eval", torch_amp=amp, eval_output_file=scores))
        data = {"class": "Task12AXDataset", "num_seqs": 2, "fixed_random_seed": 1}
        tasks.forward(config(trained, task="forward", torch_amp=amp, forward_data=data, output_file=outputs))
        with h5py.File(outputs, "r") as file:
            found.append((ast.literal_eval((tmp_path / scores).read_text())["dev_loss_ce"], file["inputs"][:]))
    (score, output), (short_score, short_output) = found
    assert short_score != score
    assert short_score == pytest.approx(score, rel=0.02)
    assert not numpy.array_equal(short_output, output)
    numpy.testing.assert_allclose(short_output, output, atol=0.05)


def test_parameters_of_another_model(trained, tmp_path):
    mapping = {f"lstm.{x}": f"lstm.{x}" for x in ("ff_weight", "rec_weight", "bias")}
    file = {"filename": str(trained / "net.002.pt"), "init_for_train": True, "prefix": "lstm."}
    preload = {"old": {**file, "var_name_mapping": mapping}}
    called = []
    engine = Engine(
        config(tmp_path, preload_from_files=preload, load_model_post_hooks=[lambda model: called.append(model)])
    )
    engine.init_train_from_config()
    wanted = parameters(trained / "net.002")
    assert torch.equal(engine.runner.parameters["lstm.bias"], wanted["lstm.bias"])
    assert not torch.equal(engine.runner.parameters["conv.filter"], wanted["conv.filter"])
    assert called == [engine.model]
    preload = {"old": file}
    with pytest.raises(ConfigError, match=r"has no 'ff_weight', for the parameter 'lstm\.ff_weight'"):
        Engine(config(tmp_path, preload_from_files=preload)).init_train_from_config()


def test_slashes_of_tensorflow_are_dots(trained, tmp_path):
    expected = parameters(trained / "net.002")
    converted = str(tmp_path / "converted.pt")
    torch.save({"model": {name.replace(".", "/"): value for name, value in expected.items()}}, converted)
    for options in (
        {"task": "eval", "load": converted},
        {"task": "eval", "preload_from_files": {"all": {"filename": converted}}, "allow_random_model_init": True},
    ):
        engine = Engine(config(tmp_path, **options))
        engine.init_network_from_config()
        assert_same({name: value.detach() for name, value in model_parameters(engine.get_model()).items()}, expected)


@pytest.mark.parametrize("ignore_missing", [False, True])
def test_a_file_to_preload_that_is_missing(ignore_missing, tmp_path):
    file = {"filename": "nowhere/net.001", "init_for_train": True, "ignore_missing": ignore_missing}
    with pytest.raises(
        ConfigError, match=r"^option 'preload_from_files': 'old': checkpoint 'nowhere/net\.001' does not exist"
    ):
        Engine(config(tmp_path, preload_from_files={"old": file})).init_train_from_config()


@pytest.mark.parametrize("option", ["import_model_train_epoch1", "load"])
def test_an_imported_model_that_is_missing(option, tmp_path):
    with pytest.raises(
        ConfigError, match=f"^option '{option}': checkpoint 'nowhere/net.001' does not exist.\n  The folder 'nowhere' d"
    ):
        tasks.train(config(tmp_path, **{option: "nowhere/net.001"}))


@pytest.mark.parametrize(("suffix", "kind"), [(".npz", "numpy"), (".index", "TensorFlow")])
def test_a_checkpoint_of_another_format(suffix, kind, tmp_path):
    (tmp_path / f"x{suffix}").write_bytes(b"")
    source = tmp_path / f"x{suffix.removesuffix('.index')}"
    with pytest.raises(UserError) as info:
        tasks.train(config(tmp_path, load=str(tmp_path / f"x{suffix}")))
    assert f"has the format of {kind}, which PyTorch does not load.\n" in str(info.value)
    assert str(info.value).endswith(f"  To convert it: returnn tool convert-checkpoint {source} NAME.pt")


def test_the_check_looks_at_files_to_preload(trained, tmp_path, caplog):
    def check(filename=trained / "net.002", **options):
        preload = {"old": {"filename": str(filename), "init_for_train": True, **options}}
        tasks.check(config(tmp_path, task="check", preload_from_files=preload, get_model=get_larger))

    def get_larger(**_):
        return small_model.Model(hidden=5)

    others = ["conv.filter", "conv.bias", "norm.scale", "norm.bias", "lstm.ff_weight", "lstm.rec_weight", "lstm.bias"]
    ignored = [*others, "output.weight"]
    with pytest.raises(ConfigError, match="found 1 error"):
        check()
    assert f"'ignore_params': {ignored}" in caplog.text
    check(ignore_params=ignored)
    with pytest.raises(ConfigError, match="found 1 error"):
        check("nowhere")
    assert "'old': checkpoint 'nowhere' does not exist" in caplog.text


def test_a_model_that_does_not_fit(trained, tmp_path):
    with pytest.raises(
        CheckpointError,
        match=r"(?s)'conv.filter' has the shape \[3, 9, 5\] in the model, but \[3.*\n  Was.*'ignore_params'.*'lstm.b",
    ):
        tasks.evaluate(config(trained, task="eval", get_model=lambda **_: small_model.Model(hidden=5)))
    with pytest.raises(ConfigError, match="there is no model to work on"):
        tasks.evaluate(config(tmp_path, task="eval"))


def test_a_model_without_parameters_needs_no_checkpoint(tmp_path):
    def forward_step(*, model, extern_data, **_kwargs):
        rf.get_run_ctx().mark_as_default_output(model(extern_data["data"]), shape=extern_data["data"].dims)

    class Twice(torch.nn.Module):
        def __call__(self, x):
            return x * 2.0

    options = {"get_model": lambda **_: Twice(), "forward_step": forward_step, "forward_data": "dev"}
    tasks.forward(config(tmp_path, task="forward", **options, output_file=str(tmp_path / "out.hdf")))
    assert (tmp_path / "out.hdf").exists()


def test_newest_two_states_of_the_optimizer_stay(tmp_path):
    tasks.train(config(tmp_path, num_epochs=4, cleanup_old_models={"keep_last_n": 3, "keep_best_n": 0, "keep": []}))
    files = sorted(name for name in os.listdir(tmp_path) if name.endswith(".pt"))
    assert files == ["net.002.pt", "net.003.opt.pt", "net.003.pt", "net.004.opt.pt", "net.004.pt"]


@pytest.mark.parametrize(("options", "message"), [
    ({"get_model": None}, "option 'get_model' is required for task 'train'"),
    ({"get_model": lambda **_: None}, "the function returned None"),
    ({"get_model": lambda **_: 5}, "the function returned a int"),
    ({"get_model": lambda *, epoch: None}, "the function cannot be called, got an unexpected keyword argument 'step'"),
    ({"train_step": lambda **_: None}, "no loss was marked"),
    ({"device": "gpu"}, "finds no GPU"),
    ({"torch_amp": "float8"}, "there is no dtype 'float8'"),
    ({"torch_dataloader_opts": {"num_worker": 2}}, "Did you mean 'num_workers'"),
    ({"grad_scaler": {"scale": 2}}, "option 'grad_scaler'"),
])  # fmt: skip
def test_errors_of_a_config(options, message, tmp_path):
    with pytest.raises(ConfigError, match=message):
        tasks.train(config(tmp_path, **options))


def test_errors_of_steps(trained):
    with pytest.raises(ConfigError, match="no output was marked"):
        tasks.forward(forward_options(trained, forward_step=lambda **_: None))

    def scalar(*, model, extern_data, **_):
        rf.get_run_ctx().mark_as_output(rf.reduce_sum(extern_data["data"], axis=extern_data["data"].dims), "x")

    with pytest.raises(ConfigError, match="It has no batch dim"):
        tasks.forward(forward_options(trained, forward_step=scalar))


def test_check_shows_modules_and_computes_nothing(tmp_path, capsys):
    def get_model(**_):
        return small_model.Model(hidden=1_000_000)

    tasks.check(config(tmp_path, task="check", get_model=get_model))
    output = capsys.readouterr().out
    assert "  conv: Conv1d, 28,000,000 parameters" in output
    assert "[4*hidden=4000000, hidden=1000000] float32" in output  # of the LSTM
    assert "    filter: [filter-dim0=3, feature=9, hidden=1000000] float32" in output
    assert "loss ce: [" in output
    assert "no errors" in output

    def wrong_step(*, model, extern_data, **_):
        model.output(extern_data["data"])

    with pytest.raises(ConfigError, match="the check found 1 error"):
        tasks.check(config(tmp_path, task="check", train_step=wrong_step))
    assert "1. train_step: " in capsys.readouterr().out


def _marks_errors_alone(*, model, extern_data, **_):
    rf.get_run_ctx().mark_as_loss(
        rf.reduce_max(extern_data["data"], axis=small_model.feature_dim), "wrong", as_error=True
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimizer": {"class": "adamm"}}, "there is no optimizer 'adamm'"),
        ({"optimizer": {"class": "adam", "lr": 1}}, "option 'optimizer': "),
        ({"cleanup_old_models": {"keep_best": 2}}, "option 'cleanup_old_models': there is no key 'keep_best'"),
        ({"search_metrics": ["werr"]}, "option 'search_metrics': there is no metric 'werr'"),
        ({"get_model": lambda **_: small_model.Model}, "returned the class Model.\n  It has to return a model of it"),
        ({"train_step": _marks_errors_alone}, "nothing is there to train: 'wrong': all is marked with as_error=True"),
        ({"train_step": lambda extern_data, **_: extern_data["dta"]}, "no data 'dta'.\n  Did you mean 'data'?"),
    ],
)
def test_check_finds_what_a_training_would_end_with(tmp_path, capsys, options, message):
    with pytest.raises(ConfigError, match="the check found 1 error"):
        tasks.check(config(tmp_path, task="check", forward_step=None, **options))
    assert message in capsys.readouterr().out


def test_training_ends_where_all_losses_are_errors(tmp_path):
    with pytest.raises(ConfigError, match="nothing is there to train: 'wrong'"):
        tasks.train(config(tmp_path, train_step=_marks_errors_alone))


def test_check_knows_that_a_batch_has_sequences(tmp_path, capsys):
    def train_step(*, model, extern_data, **_):
        normed = model.norm(extern_data["data"])
        rf.get_run_ctx().mark_as_loss(rf.reduce_sum(normed, axis=normed.feature_dim), "sum")

    def get_model(**_):
        model = rf.Module()
        model.norm = rf.BatchNorm(small_model.feature_dim, use_mask=True)
        return model

    batch_dim.dyn_size_ext = None
    tasks.check(config(tmp_path, task="check", get_model=get_model, train_step=train_step, forward_step=None))
    assert "no errors" in capsys.readouterr().out
    assert batch_dim.dyn_size_ext is None


def test_check_calls_no_learning_rate_but_knows_its_arguments(tmp_path, capsys):
    with pytest.raises(ConfigError, match="the check found 1 error"):
        tasks.check(config(tmp_path, task="check", dynamic_learning_rate=lambda step: 1.0))
    assert "option 'dynamic_learning_rate': the function cannot be called" in capsys.readouterr().out
    tasks.check(config(tmp_path, task="check", dynamic_learning_rate=lambda *, learning_rate, **_: learning_rate))


def test_check_names_misspelt_options(tmp_path, capsys):
    with pytest.raises(ConfigError, match="the check found 1 error"):
        tasks.check(config(tmp_path, task="check", train_stepp=lambda **_: None, anything=1))
    out = capsys.readouterr().out
    assert "1. config: there is no option 'train_stepp'. Did you mean 'train_step'?" in out
    assert "WARNING: options that nobody reads, neither the toolkit nor the config itself: anything" in out


def test_training_without_model_files_is_said(tmp_path, capsys):
    tasks.train(config(tmp_path, model=None, num_epochs=1))
    assert "WARNING: the option 'model' is not set, so the trained parameters are not saved." in capsys.readouterr().out


def test_explain_says_why_not(tmp_path):
    with pytest.raises(ConfigError, match=r"rf.scan and rf.while_loop do in each frame what they say"):
        tasks.explain(config(tmp_path, task="explain"))


def test_curves_profile_and_memory(tmp_path, capsys):
    tasks.train(config(
        tmp_path, use_tensorboard=True, torch_profile=1, torch_log_memory_usage=True, num_epochs=3, log_grad_norm=True,
    ))  # fmt: skip
    folder = tmp_path / "tensorboard"
    assert sorted(os.listdir(folder)) == ["dev", "profile.json", "profile.txt", "train"]
    assert "memory: mem peak" in capsys.readouterr().out
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(folder / "train")).Reload()
    assert {"loss/ce", "error/fer", "grad_norm", "learning_rate"} <= set(events.Tags()["scalars"])
    assert [event.step for event in events.Scalars("loss/ce")] == [0, 1, 2, 3, 4, 5]
    tasks.evaluate(config(tmp_path, use_tensorboard=True, task="eval", load_epoch=2))  # is no part of the training
    events = accumulator.EventAccumulator(str(folder / "dev")).Reload()
    assert [event.step for event in events.Scalars("loss/ce")] == [2, 4, 6]


def test_scores_of_a_training_that_goes_on_with_an_evaluation_have_its_step(tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    rates = tmp_path / "rates"
    options = {"use_tensorboard": True, "num_epochs": 2, "learning_rate_file": str(rates)}
    tasks.train(config(tmp_path, **options))
    shutil.rmtree(tmp_path / "tensorboard")
    epochs = read_learning_rate_file(rates)
    epochs[2].error = {name: score for name, score in epochs[2].error.items() if not name.startswith("dev_")}
    write_learning_rate_file(rates, epochs)
    tasks.train(config(tmp_path, **options))
    events = accumulator.EventAccumulator(str(tmp_path / "tensorboard" / "dev")).Reload()
    assert [event.step for event in events.Scalars("loss/ce")] == [4]


def test_a_module_of_pytorch_itself(tmp_path):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.output = torch.nn.Linear(9, 2)

    def train_step(*, model, extern_data, **_):
        raw = model.output(extern_data["data"].raw_tensor)
        logits = rf.convert_to_tensor(raw, dims=[*extern_data["data"].dims[:2], classes_dim])
        loss = rf.cross_entropy(
            target=extern_data["classes"], estimated=logits, estimated_type="logits", axis=classes_dim
        )
        rf.get_run_ctx().mark_as_loss(loss, "ce")

    tasks.train(config(tmp_path, get_model=lambda **_: Net(), train_step=train_step))
    assert sorted(parameters(tmp_path / "net.001")) == ["output.bias", "output.weight"]
    assert time_dim.size is None


WORDS = {"class": "Vocabulary", "labels": ["a", "b"], "unknown_label": None}


def beam_of_two(*, model, extern_data, **kwargs):
    """Marks as many labels as there are frames, and one less with the other place of the beam."""
    beam = Dim(2, name="beam")
    place = rf.range_over_dim(beam, dtype="int32").copy_with_roles(sparse_dim=None)
    lengths = rf.combine_bc(time_dim.get_size_tensor(), "-", place)
    found = Dim(lengths, name="found")
    labels = rf.zeros([batch_dim, beam, found], dtype="int32", sparse_dim=classes_dim)
    rf.get_run_ctx().mark_as_output(labels, "best", dims=[batch_dim, beam, found])
    scores = rf.expand_dim(rf.convert_to_tensor([0.0, -1.0], dims=[beam]), batch_dim)
    rf.get_run_ctx().mark_as_output(scores, "scores", dims=[batch_dim, beam])


def search_options(trained, tmp_path, **options):
    data = {**small_model.EXTERN_DATA, "classes": {**small_model.EXTERN_DATA["classes"], "vocab": WORDS}}
    return config(
        trained, task="search", search_output_layer="best", search_output_file=str(tmp_path / "hyps.py"),
        search_output_file_format="py",
        **{"search_data": {"class": "Task12AXDataset", "num_seqs": 5, "fixed_random_seed": 1}, "extern_data": data,
           **options},
    )  # fmt: skip


def test_each_hypothesis_has_its_own_length(trained, tmp_path):
    tasks.search(search_options(trained, tmp_path, forward_step=beam_of_two))
    lengths = [[len(text.split()) for _, text in hyps] for hyps in read_hypotheses(str(tmp_path / "hyps.py")).values()]
    assert len({first for first, _ in lengths}) > 1
    assert all(second == first - 1 for first, second in lengths)


def test_hypotheses_are_scored_and_in_the_order_of_the_corpus(trained, tmp_path, capsys):
    def forward_step(*, model, extern_data, **kwargs):
        rf.get_run_ctx().mark_as_output(extern_data["classes"], "best", dims=[batch_dim, time_dim])

    options = {"search_metrics": ["wer"], "forward_step": forward_step, "search_data": {
        "class": "Task12AXDataset", "num_seqs": 6, "fixed_random_seed": 1, "seq_ordering": "sorted_reverse",
    }}  # fmt: skip
    tasks.search(search_options(trained, tmp_path, **options))
    log.flush()
    out = capsys.readouterr().out
    assert "search: WER 0.00% (0 errors" in out
    assert "in the order of the corpus" in out
    hypotheses = read_hypotheses(str(tmp_path / "hyps.py"))
    assert list(hypotheses) == [f"seq-{i}" for i in range(6)]
    limit = sorted(len(text.split()) for text in hypotheses.values())[3]
    short = {tag: text for tag, text in hypotheses.items() if len(text.split()) <= limit}
    options.update(max_seq_length={"classes": limit}, allow_skipping_seqs_in_forward=True)
    tasks.search(search_options(trained, tmp_path, **options))
    log.flush()
    missing = f"without {6 - len(short)} of 6 sequences: {6 - len(short)} by 'max_seq_length'\n"
    assert f"in the order of the corpus, {missing}" in capsys.readouterr().out
    assert list(read_hypotheses(str(tmp_path / "hyps.py")).items()) == list(short.items())


@pytest.mark.parametrize(("options", "message"), [
    ({"target": "clases"}, "the references are the data 'clases', which is not there.\n  Did you mean 'classes'?"),
    ({"search_metrics": ["wr"]}, "option 'search_metrics': there is no metric 'wr'.\n  Did you mean 'wer'?"),
])  # fmt: skip
def test_errors_of_scored_searches(options, message, trained, tmp_path):
    made = search_options(trained, tmp_path, search_metrics=["wer"])
    made.update(options)
    with pytest.raises(ConfigError) as info:
        tasks.search(made)
    assert message in str(info.value)


def test_references_need_names_of_labels(monkeypatch):
    templates = extern_data_of_config(
        Config({"extern_data": {"classes": {"dim": 2, "sparse": True}, "data": {"dim": 9}}})
    )
    dataset = init_dataset({"class": "Task12AXDataset", "num_seqs": 1})
    monkeypatch.setattr(dataset, "can_serialize_data", lambda key: False)
    with pytest.raises(ConfigError) as info:
        References(templates, "classes", dataset)
    assert "option 'search_metrics': the labels of 'classes' have no names.\n  Give it a 'vocab'" in str(info.value)
    with pytest.raises(ConfigError, match="option 'search_metrics': 'data' has no labels, but features"):
        References(templates, "data", dataset)


def test_auto_batch_size_is_found_kept_and_the_same_as_the_number(tmp_path):
    def train(name, **options):
        def limited(*, model, extern_data, **kwargs):
            if numpy.prod(extern_data["data"].raw_tensor.shape[:2]) > 600:
                raise torch.OutOfMemoryError("not enough")
            small_model.train_step(model=model, extern_data=extern_data, **kwargs)

        (tmp_path / name).mkdir()
        made = config(tmp_path / name, train_step=limited, max_seqs=100, **options)
        engine = Engine(made)
        engine.init_train_from_config(made)
        engine.train()
        return made.typed_dict["batch_size"], parameters(tmp_path / name / "net.001")

    size, found = train("auto", batch_size="auto", auto_batch_size={"start": 100})
    assert 360 < size <= 600
    assert (tmp_path / "auto" / "net.batch_size").read_text().endswith(f": {size}}}\n")
    assert_same(found, train("number", batch_size=size)[1])


class LinearModel(rf.Module):
    """Without dropout, so that parts give the same."""

    def __init__(self, batch_norm=False):
        super().__init__()
        self.linear = rf.Linear(small_model.feature_dim, classes_dim)
        self.linear.weight.weight_decay = 0.1
        self.norm = rf.BatchNorm(small_model.feature_dim) if batch_norm else None

    def __call__(self, x, **_kwargs):
        return self.linear(x if self.norm is None else self.norm(x))


def train_with_memory(folder, *, max_seqs_in_memory, batch_norm=False, whole_loss=False, **options):
    """:return: engine, after an epoch with batches of 4 sequences"""

    def train_step(*, model, extern_data, **_kwargs):
        if int(extern_data["data"].raw_tensor.shape[0]) > max_seqs_in_memory:
            raise torch.OutOfMemoryError("Tried to allocate 20 GiB.\nMore about it")
        logits = model(extern_data["data"], spatial_dim=time_dim)
        loss = rf.cross_entropy(
            target=extern_data["classes"], estimated=logits, estimated_type="logits", axis=classes_dim
        )
        rf.get_run_ctx().mark_as_loss(loss, "sum")
        mean = rf.reduce_mean(loss, axis=loss.dims) if whole_loss else loss
        rf.get_run_ctx().mark_as_loss(mean, "mean", use_normalized_loss=True)

    folder.mkdir()
    data = {"class": "Task12AXDataset", "num_seqs": 11, "fixed_random_seed": 1}
    options = {"train": data, "dev": None, "max_seqs": 4, "optimizer": {"class": "adam"}, **options}
    made = config(folder, get_model=lambda **_: LinearModel(batch_norm), train_step=train_step, **options)
    engine = Engine(made)
    engine.init_train_from_config(made)
    engine.train()
    return engine


def test_a_step_that_does_not_fit_is_done_in_parts_with_the_same_result(tmp_path):
    whole = train_with_memory(tmp_path / "whole", max_seqs_in_memory=4)
    parts = train_with_memory(tmp_path / "parts", max_seqs_in_memory=1)
    for name, value in parameters(tmp_path / "whole" / "net.001").items():
        torch.testing.assert_close(parameters(tmp_path / "parts" / "net.001")[name], value, rtol=1e-5, atol=1e-6)
    one, other = (engine.learning_rate_control.get_epoch_error_dict(1) for engine in (whole, parts))
    scores = {key: value for key, value in one.items() if not key.startswith(":")}
    assert {key: other[key] for key in scores} == pytest.approx(scores, rel=1e-5)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"batch_norm": True}, r"as 'norm' \(BatchNorm\) takes statistics over the batch"),
        ({"whole_loss": True, "max_seqs_in_memory": 2}, "as the loss 'mean' is not known for each sequence"),
        ({"max_seqs_in_memory": 0}, "as 4 parts do not fit either"),
    ],
)
def test_a_step_that_cannot_be_done_in_parts_says_what_takes_memory(tmp_path, options, reason):
    with pytest.raises(UserError, match=reason) as caught:
        train_with_memory(tmp_path / "run", **{"max_seqs_in_memory": 1, **options})
    text = str(caught.value)
    assert "train, epoch 1, step 0, sequences 'seq-0'" in text
    assert "memory is not enough: Tried to allocate 20 GiB.\n" in text
    assert len(text.splitlines()) <= 5
