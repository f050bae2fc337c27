"""Trainings of a small model in graphs: what they write, and that PyTorch computes the same."""

import importlib
import os
import shutil
import sys

import numpy
import pytest
import tensorflow as tf

import returnn.frontend as rf
from returnn.config import set_global_config
from returnn.engine.data import load_dataset
from returnn.engine.frontend import tasks
from returnn.engine.learning_rate_file import read_learning_rate_file
from returnn.engine.run.non_finite import NonFiniteError
from returnn.forward_iface import ForwardCallbackIface
from returnn.frontend.checkpoint import load_torch_checkpoint
from returnn.log import log
from returnn.tf.engine_rf import Engine
from returnn.util.backend_engine import BackendEngine
from returnn.util.errors import ConfigError
from returnn.util.files.checkpoint_files import CheckpointError
from tests.engine.frontend import small_model
from tests.engine.frontend.small_model import time_dim

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


@pytest.fixture(autouse=True)
def backend():
    log.initialize(verbosity=[3])
    before = BackendEngine.selected_engine
    yield
    set_global_config(None)
    rf.select_backend_numpy()
    BackendEngine.selected_engine = before
    tf.compat.v1.reset_default_graph()
    time_dim.reset_raw()


def config(folder, **options):
    made = small_model.config(folder, **{"backend": "tensorflow", **options})
    set_global_config(made)
    BackendEngine.select_engine(config=made)
    return made


def parameters(name):
    reader = tf.train.load_checkpoint(str(name))
    return {key: reader.get_tensor(key) for key in reader.get_variable_to_shape_map()}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """:return: folder with two epochs"""
    folder = tmp_path_factory.mktemp("trained")
    log.initialize(verbosity=[3])
    tasks.train(config(folder, num_epochs=2))
    return folder


def test_parameters_have_the_names_of_modules(trained):
    names = {name for name in parameters(trained / "net.002") if not name.startswith("optimize/")}
    assert names == {
        "conv/filter", "conv/bias", "norm/scale", "norm/bias", "lstm/ff_weight", "lstm/rec_weight", "lstm/bias",
        "output/weight", "output/bias", "global_step",
    }  # fmt: skip
    assert parameters(trained / "net.002")["global_step"] == 4


def test_one_data_set_is_evaluated_alone(trained):
    engine = Engine(config(trained, task="eval", load_epoch=2))
    engine.init_network_from_config()
    dev = load_dataset(engine.config, "dev")
    engine.eval_datasets = {"dev": dev}
    scores = engine.eval_model("mine", dev, lr_control_update_scores=False)
    assert scores == {"mine": engine.eval_model(lr_control_update_scores=False)["dev"]}
    assert set(scores["mine"]) == {"loss:ce", "error:fer"}
    engine.finalize()


def test_a_model_of_no_known_epoch_is_evaluated_without_one(trained, tmp_path, caplog):
    for file in trained.glob("net.002.*"):
        shutil.copy(file, tmp_path / file.name.replace("net.002", "mean"))
    tasks.evaluate(config(trained, task="eval", load=str(tmp_path / "mean")))
    assert "dev, step 1, loss ce" in caplog.text


@pytest.mark.parametrize("ignore_missing", [False, True])
def test_a_file_to_preload_that_is_missing(ignore_missing, tmp_path):
    file = {"filename": "nowhere/net.001", "init_for_train": True, "ignore_missing": ignore_missing}
    with pytest.raises(
        ConfigError, match=r"^option 'preload_from_files': 'old': checkpoint 'nowhere/net\.001' does not exist"
    ):
        Engine(config(tmp_path, preload_from_files={"old": file})).init_train_from_config()


def test_a_resumed_training_ends_with_the_same_parameters(trained, tmp_path):
    tasks.train(config(tmp_path, num_epochs=1))
    tasks.train(config(tmp_path, num_epochs=2))
    wanted = parameters(trained / "net.002")
    found = parameters(tmp_path / "net.002")
    assert set(found) == set(wanted)
    for name, value in wanted.items():
        numpy.testing.assert_array_equal(found[name], value, err_msg=name)


class Outputs(ForwardCallbackIface):
    def __init__(self):
        self.by_tag = {}

    def process_seq(self, *, seq_tag, outputs):
        self.by_tag[seq_tag] = outputs["output"].raw_tensor


EXACT = {
    "default_float_dtype": "float64", "get_model": lambda **_: small_model.Model(dropout=0.0), "optimizer": None,
    "learning_rate": 1.0, "max_seqs": 100, "batch_size": 100_000,
}  # fmt: skip


def g2p_options():
    """:return: the demo with small layers, on words of random letters"""
    sys.path.insert(0, os.path.join(ROOT, "demos", "g2p"))
    try:
        g2p_rf = importlib.import_module("g2p_rf")
    finally:
        sys.path.pop(0)
    random = numpy.random.RandomState(1)
    words = [
        {"data": random.randint(1, 20, n).astype("int32"), "classes": random.randint(0, 30, m).astype("int32")}
        for n, m in ((3, 4), (7, 5), (1, 2), (5, 8))
    ]
    sizes = {"embedding": 3, "encoder": 4, "decoder": 5, "attention": 3}
    data = {"class": "StaticDataset", "data": words, "output_dim": {"data": (28, 1), "classes": (40, 1)}}
    return {
        "train": data, "dev": data, "extern_data": g2p_rf.EXTERN_DATA, "train_step": g2p_rf.train_step,
        "get_model": lambda **_: g2p_rf.Model(**sizes, encoder_dropout=0.0, output_dropout=0.0),
    }  # fmt: skip


@pytest.mark.parametrize("case", ["small model", "g2p"])
def test_pytorch_computes_the_same_loss_and_gradients(case, tmp_path):
    exact = {**EXACT, **(g2p_options() if case == "g2p" else {})}
    (tmp_path / "initial").mkdir()
    tasks.initialize_model(config(tmp_path / "initial", **{**exact, "backend": "torch", "task": "initialize_model"}))
    initial = str(tmp_path / "initial" / "net.000.pt")
    scores = {}
    for backend in ("torch", "tensorflow"):
        folder = tmp_path / backend
        folder.mkdir()
        # One step of gradient descent with the learning rate 1: the parameters differ by the gradients.
        rates = str(folder / "rates")
        tasks.train(config(
            folder, import_model_train_epoch1=initial, learning_rate_file=rates, **{**exact, "backend": backend},
        ))  # fmt: skip
        scores[backend] = read_learning_rate_file(rates)[1].error
    before = load_torch_checkpoint(initial)
    wanted = load_torch_checkpoint(tmp_path / "torch" / "net.001.pt")
    found = {name.replace("/", "."): value for name, value in parameters(tmp_path / "tensorflow" / "net.001").items()}
    for name, value in wanted.items():
        assert numpy.abs(value - before[name]).max() > 1e-7, name
        numpy.testing.assert_allclose(found[name], value, rtol=0, atol=1e-9, err_msg=name)
    names = {"score": "loss_ce", "error": "loss_fer"}
    expected = {
        f"{data}_{kind}": scores["torch"].pop(f"{data}_{names[kind]}") for data in ("train", "dev") for kind in names
    }
    assert scores["torch"] == {}
    assert scores["tensorflow"] == pytest.approx(expected, abs=1e-9)


def test_pytorch_computes_the_same_outputs(tmp_path):
    tasks.initialize_model(config(tmp_path, backend="torch", task="initialize_model", **EXACT))
    data = {"class": "Task12AXDataset", "num_seqs": 5, "fixed_random_seed": 1}
    outputs = {}
    for backend in ("torch", "tensorflow"):
        outputs[backend] = Outputs()
        tasks.forward(config(
            tmp_path, backend=backend, task="forward", forward_data=data, forward_callback=outputs[backend],
            load=str(tmp_path / "net.000.pt"), **EXACT,
        ))  # fmt: skip
    for tag, value in outputs["torch"].by_tag.items():
        numpy.testing.assert_allclose(outputs["tensorflow"].by_tag[tag], value, rtol=0, atol=1e-9)


def test_parameter_that_an_update_has_made_not_finite_is_named(tmp_path):
    with pytest.raises(NonFiniteError) as info:
        tasks.train(config(tmp_path, optimizer={"class": "adafactor", "epsilon_1": -1e9}))
    assert "train, epoch 1, step 1, sequences " in str(info.value)
    assert "' is not finite itself, though loss and gradients of each update were.\n  Look at 'optimizer'" in (
        str(info.value)
    )


def test_what_is_not_finite_is_named(tmp_path):
    class Norm(rf.LayerNorm):
        def __call__(self, source):
            return super().__call__(source) * float("nan")

    def get_model(**_):
        model = small_model.Model()
        model.norm.__class__ = type("LayerNorm", (Norm,), {})
        return model

    with pytest.raises(NonFiniteError) as info:
        tasks.train(config(tmp_path, get_model=get_model))
    assert "The first module with a value that is not finite: 'norm' (LayerNorm)." in str(info.value)
    assert "train, epoch 1, step 0, sequences 'seq-0', 'seq-1'" in str(info.value)
    assert "net.001.broken.index" in os.listdir(tmp_path)
    assert "net.001.index" not in os.listdir(tmp_path)


def test_the_check_looks_at_files_to_preload(trained, tmp_path, caplog):
    preload = {"old": {"filename": str(trained / "net.002"), "init_for_train": True}}
    options = {"task": "check", "preload_from_files": preload}
    tasks.check(config(tmp_path, **options))
    with pytest.raises(ConfigError, match="found 1 error"):
        tasks.check(config(tmp_path, **options, get_model=lambda **_: small_model.Model(hidden=5)))
    assert "8 parameters of the model with another shape" in caplog.text
    assert "'ignore_params': ['conv.filter', " in caplog.text


def test_models_that_do_not_fit(trained, tmp_path):
    with pytest.raises(CheckpointError, match=r"'conv.filter'.* has the shape \[3, 9, 5\] in the model, but \[3"):
        tasks.evaluate(config(trained, task="eval", get_model=lambda **_: small_model.Model(hidden=5)))
    with pytest.raises(CheckpointError, match="the state of the optimizer is of another one"):
        Engine(config(trained, num_epochs=3, optimizer={"class": "adamw"})).init_train_from_config()
    with pytest.raises(ConfigError, match=r"has to return an rf\.Module"):
        tasks.train(config(tmp_path, get_model=lambda **_: 3))


def test_weight_decay_of_a_parameter_is_part_of_the_objective(tmp_path):
    def get_model(**_):
        model = small_model.Model(dropout=0.0)
        model.output.weight.weight_decay = 0.25
        return model

    def train_step(*, model, extern_data, **_):
        rf.get_run_ctx().mark_as_loss(rf.reduce_sum(model.output.bias, axis=model.output.bias.dims), "bias")

    engine = Engine(config(tmp_path, get_model=get_model, train_step=train_step, optimizer=None, learning_rate=1.0))
    engine.init_train_from_config()
    weight = engine.model.output.weight.raw_tensor
    before = engine.runner.session.run(weight)
    engine.train()
    # Each of the two steps: weight - 2 * 0.25 * weight.
    numpy.testing.assert_allclose(engine.runner.session.run(weight), before / 4, rtol=1e-5)
    engine.finalize()
