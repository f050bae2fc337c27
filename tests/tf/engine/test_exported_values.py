"""Exported models have the parameters that a run has, wherever these come from."""

import numpy
import pytest
import tensorflow as tf

from returnn.log import log
from returnn.tf.checkpoint import CheckpointError
from returnn.tf.engine import Engine, tasks
from returnn.tf.graph_export import GraphMode
from returnn.tf.model_export import freeze
from returnn.util.errors import ConfigError
from tests.tf.engine.small_config import assert_same, config, parameters

LINEAR = {"class": "linear", "activation": "log_softmax", "n_out": 2, "from": "data"}
MODEL = {"output": LINEAR | {"loss": "ce", "target": "classes"}}
BOTH = {
    "output": LINEAR,
    "other": {"class": "subnetwork", "from": "data", "subnetwork": {"output": LINEAR}},
    "sum": {"class": "combine", "kind": "add", "is_output_layer": True, "from": ["output", "other"]},
}


@pytest.fixture(autouse=True)
def log_to_stdout(capsys):
    log.initialize(verbosity=[5])
    yield
    tf.compat.v1.reset_default_graph()


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """:return: folder of trainings, each with a model of epoch 1"""
    folder = tmp_path_factory.mktemp("models")
    log.initialize(verbosity=[1])
    names_of_both = {"other": BOTH["other"] | {"subnetwork": MODEL}, "output": {"class": "copy", "from": "other"}}
    for seed, (name, network) in enumerate({"one": MODEL, "two": MODEL, "named": names_of_both}.items()):
        tasks.train(config(folder / name, network=network, random_seed=seed))
    return folder


def exported(made, checkpoint):
    """:return: values of the parameters in the graph, by name"""
    graph_def = freeze(made, checkpoint, GraphMode()).graph_def
    names = ("output/W", "output/b", "other/output/W", "other/output/b")
    return {x.name: tf.make_ndarray(x.attr["value"].tensor) for x in graph_def.node if x.name in names}


def in_a_run(made):
    made.set("task", "forward")
    engine = Engine(made)
    engine.init_network_from_config()
    values = engine.tf_session.run({param.op.name: param for param in engine.network.get_params_list()})
    engine.finalize()
    return values


@pytest.mark.parametrize(("file", "options"), [
    ("two", {"prefix": "other/"}), ("two", {"prefix": "other/", "init_for_train": "always"}),
    ("named", {"ignore_missing": True}),
])  # fmt: skip
def test_preloaded_parameters(models, file, options):
    filename = str(models / file / "net.001")
    preload = {"other": {"filename": filename, **options}}
    made = config(models / "one", network=BOTH, preload_from_files=preload)
    found = exported(made, str(models / "one" / "net.001"))
    assert_same(found, in_a_run(made))
    assert any(numpy.array_equal(found["other/output/W"], value) for value in parameters(filename).values())


def test_a_file_for_the_training_alone_is_not_loaded(models):
    preload = {"base": {"filename": str(models / "two" / "net.001"), "init_for_train": True}}
    made = config(models / "one", network=MODEL, preload_from_files=preload)
    found = exported(made, str(models / "one" / "net.001"))
    numpy.testing.assert_array_equal(found["output/W"], parameters(models / "one" / "net.001")["output/W"])


def test_parameters_may_all_be_preloaded(models, tmp_path):
    preload = {"base": {"filename": str(models / "two" / "net.001")}}
    made = config(tmp_path, network=MODEL, preload_from_files=preload)
    assert_same(exported(made, None), in_a_run(made))


def test_parameters_are_not_left_at_random(models, tmp_path):
    with pytest.raises(ConfigError, match=r"there is no model to work on: '.*/net' has no checkpoint"):
        exported(config(tmp_path, network=MODEL), None)
    only_for_training = {"base": {"filename": str(models / "two" / "net.001"), "init_for_train": True}}
    with pytest.raises(ConfigError, match="there is no model to work on"):
        exported(config(tmp_path, network=MODEL, preload_from_files=only_for_training), None)
    with pytest.raises(CheckpointError, match="2 of 5 parameters are not in it: 'other/output/W', 'other/output/b'"):
        exported(config(models / "one", network=BOTH), str(models / "one" / "net.001"))


def test_missing_ones_that_are_ignored_are_told(models, capsys):
    made = config(models / "one", network=BOTH, load_ignore_missing_vars=True)
    assert set(exported(made, str(models / "one" / "net.001"))) == {*in_a_run(made)}
    assert "2 parameters of the model are not in it and keep their initial values" in capsys.readouterr().out


def test_wrong_preloads_are_errors(models):
    preload = {"other": {"filename": str(models / "two" / "net.001"), "prefix": "othr/"}}
    made = config(models / "one", network=BOTH, preload_from_files=preload)
    with pytest.raises(CheckpointError, match="'other/output/W'"):
        exported(made, str(models / "one" / "net.001"))
    preload = {"other": {"filename": str(models / "none" / "net.001"), "prefix": "other/"}}
    made = config(models / "one", network=BOTH, preload_from_files=preload)
    with pytest.raises(ConfigError, match="option 'preload_from_files': 'other': checkpoint"):
        exported(made, str(models / "one" / "net.001"))
