"""`load_on_init` in tasks that load a model: whose values a subnetwork has then."""

import numpy
import pytest
import tensorflow as tf

from returnn.engine.run.model_files import ModelToLoad
from returnn.engine.run.unfinished import UnfinishedEpoch
from returnn.log import log
from returnn.tf.checkpoint import delete_checkpoint
from returnn.tf.engine import Engine, tasks
from returnn.tf.graph_export import GraphMode
from returnn.tf.inspection.config_check import check_config
from returnn.tf.model_export import freeze
from returnn.util.system.warn_once import forget_shown
from tests.tf.engine.small_config import config, parameters

INSIDE = {"output": {"class": "linear", "activation": "log_softmax", "n_out": 2, "from": "data"}}
AM = {"class": "softmax", "from": "data", "loss": "ce", "target": "classes"}
SUM = {"class": "combine", "kind": "add", "is_output_layer": True}
LOOP = {"am": AM | {"from": "data:source", "loss": None}, "output": {"class": "copy", "from": "am"}}


@pytest.fixture(autouse=True)
def log_to_stdout(capsys):
    log.initialize(verbosity=[5])
    forget_shown()
    yield
    tf.compat.v1.reset_default_graph()


@pytest.fixture
def lm(tmp_path):
    """:return: checkpoint of another model"""
    network = {"output": {**INSIDE["output"], "loss": "ce", "target": "classes"}}
    tasks.train(config(tmp_path / "lm", network=network))
    return str(tmp_path / "lm" / "net.001")


def with_lm(lm, **options):
    sub = {"class": "subnetwork", "from": "data", "subnetwork": INSIDE, "load_on_init": lm, **options}
    return {"output": AM, "lm": sub, "sum": {**SUM, "from": ["output", "lm"]}}


def with_lm_in_loop(lm):
    sub = {"class": "subnetwork", "from": "data:source", "subnetwork": INSIDE, "load_on_init": lm}
    unit = {**LOOP, "lm": sub, "output": {**SUM, "from": ["am", "lm"]}}
    return {"output": {"class": "rec", "from": "data", "unit": unit, "optimize_move_layers_out": False}}


def values_of(made, *, is_training=False):
    """:return: values by name, when the task begins"""
    made.set("task", "train" if is_training else "forward")
    engine = Engine(made)
    if is_training:
        engine.init_train_from_config()
    else:
        engine.init_network_from_config()
    values = engine.tf_session.run({param.op.name: param for param in engine.network.get_params_list()})
    engine.finalize()
    return values


def test_a_task_takes_them_from_the_file_and_the_rest_from_the_model(tmp_path, lm, capsys):
    tasks.train(config(tmp_path, network={"output": AM}))
    values = values_of(config(tmp_path, network=with_lm(lm)))
    numpy.testing.assert_array_equal(values["lm/output/W"], parameters(lm)["output/W"])
    numpy.testing.assert_array_equal(values["output/W"], parameters(tmp_path / "net.001")["output/W"])
    assert "WARNING" not in capsys.readouterr().out


def test_inside_of_a_loop(tmp_path, lm):
    loop = {"class": "rec", "from": "data", "unit": LOOP, "optimize_move_layers_out": False, "loss": "ce"}
    tasks.train(config(tmp_path, network={"output": {**loop, "target": "classes"}}))
    values = values_of(config(tmp_path, network=with_lm_in_loop(lm)))
    numpy.testing.assert_array_equal(values["output/rec/lm/output/W"], parameters(lm)["output/W"])
    numpy.testing.assert_array_equal(values["output/rec/am/W"], parameters(tmp_path / "net.001")["output/rec/am/W"])


def trained_with_lm(folder, lm):
    """:return: options of a training which changes what it began with"""
    network = with_lm(lm)
    network["sum"] |= {"loss": "as_is"}
    tasks.train(config(folder, network=network, learning_rate=0.5))
    assert not numpy.array_equal(parameters(folder / "net.001")["lm/output/W"], parameters(lm)["output/W"])
    return {"network": network, "num_epochs": 2}


def test_a_training_that_goes_on_keeps_what_it_has_trained(tmp_path, lm):
    options = trained_with_lm(tmp_path, lm)
    delete_checkpoint(lm)  # it is not needed any more
    values = values_of(config(tmp_path, **options), is_training=True)
    numpy.testing.assert_array_equal(values["lm/output/W"], parameters(tmp_path / "net.001")["lm/output/W"])


def test_a_training_that_goes_on_inside_of_an_epoch_needs_no_file(tmp_path, lm):
    options = trained_with_lm(tmp_path, lm)
    delete_checkpoint(lm)
    unfinished = UnfinishedEpoch(position=None, checkpoint=str(tmp_path / "net.001"))
    engine = Engine(config(tmp_path / "2", **options, task="train"))
    engine.session.build(options["network"], ModelToLoad(0, unfinished=unfinished), is_training=True)
    engine.finalize()


def test_a_training_that_goes_on_takes_from_the_file_what_is_new(tmp_path, lm):
    tasks.train(config(tmp_path, network={"output": AM}))
    made = config(tmp_path, network=with_lm(lm), num_epochs=2)
    numpy.testing.assert_array_equal(values_of(made, is_training=True)["lm/output/W"], parameters(lm)["output/W"])


def test_a_training_that_goes_back_to_an_epoch_keeps_what_it_has_trained(tmp_path, lm):
    made = config(tmp_path / "2", **trained_with_lm(tmp_path, lm))
    made.set("task", "train")
    engine = Engine(made)
    engine.init_train_from_config()
    engine.load_model(filename=str(tmp_path / "net.001"))
    values = engine.tf_session.run({param.op.name: param for param in engine.network.get_params_list()})
    engine.finalize()
    numpy.testing.assert_array_equal(values["lm/output/W"], parameters(tmp_path / "net.001")["lm/output/W"])


def test_for_another_task_the_file_counts_and_other_values_are_told(tmp_path, lm, capsys):
    options = trained_with_lm(tmp_path, lm)
    values = values_of(config(tmp_path, **options))
    numpy.testing.assert_array_equal(values["lm/output/W"], parameters(lm)["output/W"])
    output = capsys.readouterr().out
    assert "2 parameters there have other values than in the file of 'load_on_init', which counts: 'lm/outp" in output


def test_an_exported_model_has_them(tmp_path, lm):
    tasks.train(config(tmp_path, network={"output": AM}))
    model = freeze(config(tmp_path, network=with_lm(lm)), str(tmp_path / "net.001"), GraphMode())
    constants = {
        node.name: tf.make_ndarray(node.attr["value"].tensor) for node in model.graph_def.node if node.op == "Const"
    }
    numpy.testing.assert_array_equal(constants["lm/output/W"], parameters(lm)["output/W"])


def test_check_names_a_file_that_is_missing(tmp_path):
    report = check_config(config(tmp_path, network=with_lm("nowhere/net.004")))
    assert report.errors == [
        "layer 'lm' (class 'subnetwork'): option 'load_on_init': checkpoint 'nowhere/net.004' does not exist."
    ]


def test_parameters_that_are_left_at_random_are_named(tmp_path, capsys):
    tasks.train(config(tmp_path, network={"output": AM}))
    values_of(config(tmp_path, network=with_lm(None), load_ignore_missing_vars=True))
    assert (
        f"WARNING: checkpoint '{tmp_path}/net.001': 2 parameters of the model are not in it and keep their initial "
        "values ('load_ignore_missing_vars'): 'lm/output/W', 'lm/output/b'.\n"
    ) in capsys.readouterr().out


def test_a_misspelt_parameter_is_said(tmp_path, lm, capsys):
    tasks.train(config(tmp_path, network={"output": AM}))
    inside = {"outputs": INSIDE["output"], "output": {"class": "copy", "from": "outputs"}}
    load = {"filename": lm, "ignore_missing": True}
    network = with_lm(lm, subnetwork=inside, load_on_init=load)
    values_of(config(tmp_path, network=network, load_ignore_missing_vars=True))
    assert (
        "WARNING: layer 'lm' (class 'subnetwork'): option 'load_on_init': 'ignore_missing': the file has no parameter "
        "'outputs/W', which gets no value from it, but 'output/W' (and 1 other like that). Is it misspelt?"
    ) in capsys.readouterr().out
