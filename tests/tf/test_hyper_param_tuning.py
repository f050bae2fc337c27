import json
import math
import os
import subprocess
import sys

import pytest
import tensorflow as tf

from returnn.config import Config
from returnn.engine.data import load_dataset
from returnn.log import log
from returnn.tf.engine import tasks
from returnn.tf.hyper_param_tuning import HyperParam, Individual, Optimization, hash_obj, hash_seq
from returnn.util.errors import ConfigError
from tests.tf.engine.small_config import config


@pytest.fixture(autouse=True)
def log_to_stdout(capsys):
    log.initialize(verbosity=[5])
    yield
    tf.compat.v1.reset_default_graph()


@pytest.mark.parametrize(
    "param",
    [
        HyperParam(bounds=(-1.0, 2.0)), HyperParam(dtype=int, bounds=(1, 5)), HyperParam(bounds=(1e-5, 1.0), log=True),
        HyperParam(bounds=(0.0, 1.0), log=True), HyperParam(dtype=bool), HyperParam(classes=["relu", "tanh", None]),
    ],
    ids=lambda param: f"{param.dtype.__name__}-{param.bounds or param.classes}",
)  # fmt: skip
def test_all_values_are_possible_ones(param):
    values = [param.get_value(i / 100) for i in range(101)] + [param.get_random_value(seed) for seed in range(100)]
    values += [param.merge_values(values[i], values[-1 - i]) for i in range(50)] + [param.get_default_value()]
    if param.classes is not None:
        assert {str(value) for value in values} == {str(value) for value in param.classes}
    else:
        assert all(param.bounds[0] <= value <= param.bounds[1] for value in values)
        assert all(type(value) is param.dtype for value in values)
    assert param.get_random_value(3) == param.get_random_value(3)
    assert param.get_random_value_by_idx(1, 2) == param.get_random_value_by_idx(1, 2)


def test_an_integer_has_each_value_and_a_log_scale_its_middle():
    param = HyperParam(dtype=int, bounds=(1, 4))
    assert [param.get_value(i / 4) for i in range(5)] == [1, 2, 3, 4, 4]
    assert param.get_num_instances() == 4
    assert HyperParam(bounds=(1e-4, 1.0), log=True).get_initial_value() == pytest.approx(1e-2)
    assert HyperParam(bounds=(0, 1), default=0.3).get_default_value() == 0.3
    assert HyperParam(bounds=(1e-4, 1.0), log=True).merge_values(1e-4, 1.0) == pytest.approx(1e-2)


def test_hashes_are_the_same_in_each_process():
    code = "from returnn.tf.hyper_param_tuning import hash_obj; print(hash_obj(('a', 1, [2.5, None])))"
    env = {**os.environ, "PYTHONHASHSEED": "7", "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"}
    other = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert hash_seq(["a", 1, [2.5, None]]) == int(other.stdout)
    assert hash_obj("ab") != hash_obj("ba")


def test_children_have_values_of_their_parents_or_between_or_new_ones():
    params = [HyperParam(bounds=(0, 1)) for _ in range(20)]
    parents = [Individual(dict.fromkeys(params, value), name=str(value)) for value in (0.25, 0.75)]
    child = parents[0].cross_over(params, parents[1:], random_seed=1)
    values = list(child.hyper_param_mapping.values())
    for expected in (0.25, 0.5, 0.75):
        assert expected in values
    assert len(set(values)) > 3
    assert child.name == "cross_over(0.25,0.75)"


def tuned(folder, **options):
    base = {
        "task": "hyper_param_tuning",
        "learning_rate": HyperParam(bounds=(1e-9, 0.1), log=True, default=1e-9),
        "network": {
            "hidden": {
                "class": "linear", "from": "data", "n_out": HyperParam(dtype=int, bounds=(1, 8)),
                "activation": HyperParam(classes=["tanh", "relu"]),
            },
            "output": {"class": "softmax", "from": "hidden", "loss": "ce", "target": "classes"},
        },
        "hyper_param_tuning": {
            "num_tune_iterations": 2, "num_individuals": 4, "num_kill_individuals": 2, "num_best": 3,
            "num_train_steps": 2,
        },
    }  # fmt: skip
    return config(folder, **{**base, **options})


def test_the_search_finds_something_better_than_the_default(tmp_path, capsys):
    tasks.tune_hyper_params(tuned(tmp_path))
    output = capsys.readouterr().out
    assert "iteration 2 of 2: best" in output
    assert "1. " in output
    assert "learning_rate=" in output
    assert "network/hidden/n_out=" in output
    assert not list(tmp_path.iterdir())  # no model files

    optimization = Optimization(tuned(tmp_path), load_dataset(tuned(tmp_path), "train"))
    best = optimization.work()
    assert optimization.finished
    assert len(best) == 3
    assert [individual.cost for individual in best] == sorted(individual.cost for individual in best)
    assert math.isfinite(best[0].cost)
    rate = next(param for param in optimization.hyper_params if param.description() == "learning_rate")
    assert best[0].hyper_param_mapping[rate] > 1e-9


PARALLEL = """
import json, pathlib, sys
from returnn.engine.data import load_dataset
from tests.tf.test_hyper_param_tuning import Optimization, tuned

found = []
for num_threads in (2, 1):  # as TensorFlow must not have computed anything before
    options = {"num_tune_iterations": 2, "num_individuals": 3, "num_kill_individuals": 1, "num_train_steps": 2}
    config = tuned(pathlib.Path(sys.argv[1]), hyper_param_tuning={**options, "num_threads": num_threads})
    best = Optimization(config, load_dataset(config, "train")).work()
    found.append([(individual.name, individual.cost) for individual in best])
json.dump(found, open(sys.argv[1] + "/found", "w"))
"""


def test_several_at_once_find_the_same(tmp_path):
    subprocess.run([sys.executable, "-c", PARALLEL, str(tmp_path)], check=True, timeout=300)
    several, one = json.loads((tmp_path / "found").read_text())
    assert len(one) == 3
    assert [name for name, _ in several] == [name for name, _ in one]
    assert [cost for _, cost in several] == pytest.approx([cost for _, cost in one], rel=1e-4)


def test_values_replace_their_places_and_the_config_stays(tmp_path):
    original = tuned(tmp_path)
    optimization = Optimization(original, None)
    individual = optimization.get_individual(0, 0)
    changed = optimization.create_config_instance(individual.hyper_param_mapping)
    assert changed.float("learning_rate", 0.0) == 1e-9
    assert changed.typed_dict["network"]["hidden"]["n_out"] == 5
    assert isinstance(original.typed_dict["network"]["hidden"]["n_out"], HyperParam)


def test_trainings_that_fail_are_the_worst(tmp_path):
    network = {
        "hidden": {"class": "linear", "from": "data", "n_out": 3, "activation": HyperParam(classes=["no", "tanh"])},
        "output": {"class": "softmax", "from": "hidden", "loss": "ce", "target": "classes"},
    }
    best = Optimization(
        tuned(tmp_path, network=network, learning_rate=0.01), load_dataset(tuned(tmp_path), "train")
    ).work()
    assert next(iter(best[0].hyper_param_mapping.values())) == "tanh"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: HyperParam(), "HyperParam: 'bounds' are None"),
        (lambda: HyperParam(bounds=(2, 1)), "HyperParam: 'bounds' are (2, 1)"),
        (lambda: HyperParam(classes=[]), "give either 'bounds', or a list of 'classes'"),
        (lambda: HyperParam(bounds=(-1, 1), log=True), "with 'log', 'bounds' cannot be (-1, 1)"),
        (lambda: Optimization(Config({}), None), "the config has no HyperParam(...)"),
        (
            lambda: Optimization(Config({"hyper_param_tuning": {"num_bst": 1}}), None),
            "option 'hyper_param_tuning': there is no key 'num_bst'.\n  Did you mean 'num_best'",
        ),
    ],
)  # fmt: skip
def test_wrong_options(make, message):
    with pytest.raises(ConfigError) as info:
        make()
    assert message in str(info.value)
    assert len(str(info.value).splitlines()) <= 5
