"""Networks that change from epoch to epoch: pretraining, `get_network(epoch)`, and what goes with them."""

import os
import re

import numpy
import pytest
import tensorflow as tf

from returnn.engine.learning_rate_file import read_learning_rate_file
from returnn.engine.pretrain import WrapEpochValue
from returnn.log import log
from returnn.tf.engine import Engine, tasks
from returnn.tf.engine.session import trained_network
from returnn.tf.inspection.picture import as_svg
from returnn.tf.layers.basic import LinearLayer, register_layer_class
from returnn.tf.util.data import FeatureDim
from returnn.util.errors import ConfigError, UserError
from tests.tf.engine.small_config import assert_same, config, parameters

DEV = {"class": "Task12AXDataset", "num_seqs": 5, "fixed_random_seed": 1}


@pytest.fixture(autouse=True)
def log_to_stdout(capsys):
    log.initialize(verbosity=[5])
    yield
    tf.compat.v1.reset_default_graph()


def linear(source, n_out=3, **options):
    return {"class": "linear", "activation": "tanh", "n_out": n_out, "from": source, **options}


def softmax(source):
    return {"class": "softmax", "from": source, "loss": "ce", "target": "classes"}


DEEP = {"h0": linear("data"), "h1": linear("h0"), "h2": linear("h1"), "output": softmax("h2")}


def train(folder, **options):
    tasks.train(config(folder, **{"optimizer": {"class": "adam"}, **options}))


def names(folder):
    return sorted(path.name.removesuffix(".index") for path in folder.iterdir() if path.suffix == ".index")


def test_pretraining_adds_layers_and_keeps_parameters(tmp_path, capsys):
    train(tmp_path, network=DEEP, pretrain="default", num_epochs=4, learning_rate=0.0)
    assert names(tmp_path) == ["net.004", "net.pretrain.001", "net.pretrain.002", "net.pretrain.003"]
    first, second, last = (parameters(tmp_path / f"net.{epoch}") for epoch in ("pretrain.001", "pretrain.002", "004"))
    assert "h1/W" not in first
    assert "h2/W" not in second
    for new, old in ((second, first), (last, second)):  # learning rate 0: nothing else changes them
        for name in ("h0/W", "h0/b", "output/W"):
            numpy.testing.assert_array_equal(new[name], old[name])
    output = capsys.readouterr().out
    assert "pretrain epoch 2: has another network" in output
    assert "parameters that start anew: 'h1/W', 'h1/b'" in output
    assert "epoch 4: has another network" not in output


def test_the_network_is_drawn_again_only_when_it_changes(tmp_path, monkeypatch):
    picture = tmp_path / "net.network.svg"
    drawn = []
    monkeypatch.setattr(trained_network, "as_svg", lambda picture: drawn.append(as_svg(picture)) or drawn[-1])
    train(tmp_path, network=DEEP, pretrain="default", num_epochs=4)
    assert [[name for name in DEEP if f">{name}<" in text] for text in drawn] == [
        ["h0", "output"], ["h0", "h1", "output"], ["h0", "h1", "h2", "output"],
    ]  # fmt: skip
    assert picture.read_text() == drawn[-1]
    os.utime(picture, (1, 1))
    train(tmp_path, network=DEEP, pretrain="default", num_epochs=5)
    assert picture.stat().st_mtime == 1
    picture.unlink()
    train(tmp_path, network=DEEP, pretrain="default", num_epochs=6, network_picture=False)
    assert not picture.exists()


def test_a_layer_that_cannot_be_drawn_is_trained(tmp_path):
    class NotToBeDrawn(LinearLayer):
        layer_class = "not_to_be_drawn"

        def get_dep_layers(self):
            raise ZeroDivisionError

    register_layer_class(NotToBeDrawn)
    train(tmp_path, network={"output": {**softmax("data"), "class": "not_to_be_drawn", "activation": "softmax"}})
    assert names(tmp_path) == ["net.001"]
    assert not (tmp_path / "net.network.svg").exists()


def test_the_state_of_the_optimizer_goes_on(tmp_path):
    train(tmp_path, network=DEEP, pretrain="default", num_epochs=2)
    first, second = parameters(tmp_path / "net.pretrain.001"), parameters(tmp_path / "net.pretrain.002")
    (slot,) = (name for name in first if name.startswith("optimize/") and name.endswith("h0/W/Adam"))
    assert numpy.abs(first[slot]).sum() > 0
    assert second["global_step"] == 2 * first["global_step"]
    (beta,) = (name for name in second if "beta1_power" in name)
    assert second[beta] == pytest.approx(first[beta] * 0.9 ** int(second["global_step"] - first["global_step"]))


def test_resuming_inside_of_the_pretraining_changes_nothing(tmp_path):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
    options = {"network": DEEP, "pretrain": {"repetitions": 2}, "learning_rate": 0.0, "random_seed": 3}
    train(tmp_path / "one", num_epochs=5, **options)
    for num_epochs in (1, 2, 3, 5):
        train(tmp_path / "two", num_epochs=num_epochs, **options)
    assert names(tmp_path / "one") == names(tmp_path / "two")
    for name in names(tmp_path / "one"):
        one, two = parameters(tmp_path / "one" / name), parameters(tmp_path / "two" / name)
        assert set(one) == set(two)
        # With learning rate 0, parameters are those that each step of the pretraining begins with.
        for key in one:
            if not key.startswith("optimize/"):
                numpy.testing.assert_array_equal(one[key], two[key], err_msg=f"{name} {key}")


def test_growing_layers_keep_the_part_that_both_have(tmp_path):
    def grow(idx, net):
        if idx > 1:
            return None
        net["#copy_param_mode"] = "subset"
        net["h0"]["n_out"] = net["h1"]["n_out"] = 2 + idx
        return net

    net = {"h0": linear("data"), "h1": linear("h0"), "output": softmax("h1")}
    train(tmp_path, network=net, pretrain={"construction_algo": grow}, num_epochs=2, learning_rate=0.0)
    first, second = parameters(tmp_path / "net.pretrain.001"), parameters(tmp_path / "net.pretrain.002")
    assert first["h1/W"].shape == (2, 2)
    assert second["h1/W"].shape == (3, 3)
    numpy.testing.assert_array_equal(second["h1/W"][:2, :2], first["h1/W"])
    numpy.testing.assert_array_equal(second["output/W"][:2], first["output/W"])


def test_output_layer_that_is_not_copied(tmp_path):
    options = {"network": DEEP, "num_epochs": 2, "learning_rate": 0.0}
    train(tmp_path, pretrain={"copy_output_layer": False}, **options)
    first, second = parameters(tmp_path / "net.pretrain.001"), parameters(tmp_path / "net.pretrain.002")
    assert_same({"W": first["h0/W"]}, {"W": second["h0/W"]})
    second_output, first_output = second["output/W"], first["output/W"]
    assert second_output.shape == first_output.shape  # which value it starts with is that of a new network


def test_output_layer_that_has_to_fit(tmp_path):
    def grow(idx, net):
        net["h0"]["n_out"] = 2 + idx
        return net if idx < 2 else None

    net = {"h0": linear("data"), "output": softmax("h0")}
    with pytest.raises(ConfigError) as info:
        train(tmp_path, network=net, pretrain={"construction_algo": grow, "copy_output_layer": True}, num_epochs=2)
    assert "layer 'output'" in str(info.value)
    assert "'ifpossible' lets it start anew" in str(info.value)


FALLING = {"learning_rate_control": "newbob", "newbob_relative_error_threshold": -100.0, "dev": DEV}  # 0.5 each time
RATES = [0.1, 0.2, 0.3, 0.4, 0.5]


def of_net(rate):
    def algo(idx, net):
        if idx == 1:
            net["#config"] = {"learning_rate": rate}
        return net if idx < 2 else None

    return {"construction_algo": algo}


def trained_rates(output):
    return [float(rate) for rate in re.findall(r"train epoch \d+, learning rate (\S+)\n", output)]


@pytest.mark.parametrize(
    ("options", "expected", "noted"),
    [
        # The pretraining is epochs 1 to 3, and the first epoch after it is 4.
        (FALLING, [0.01, 0.01, 0.01, 0.01, 0.005, 0.0025], None),
        ({"pretrain_learning_rate": 0.5}, [0.5, 0.5, 0.5, 0.01, 0.01, 0.01], None),
        ({"pretrain_learning_rate": 0.5, **FALLING}, [0.5, 0.5, 0.5, 0.01, 0.005, 0.0025], None),
        ({"learning_rates": RATES}, [0.01, 0.01, 0.01, 0.01, 0.5, 0.5], [*RATES, 0.5]),
        ({"learning_rates": RATES[:4], **FALLING}, [0.01, 0.01, 0.01, 0.01, 0.2, 0.1], [*RATES[:4], 0.2, 0.1]),
        ({"learning_rates": RATES, "use_learning_rate_control_always": True}, [*RATES, 0.5], None),
        (
            {"pretrain_learning_rate": 0.8, "use_learning_rate_control_always": True, **FALLING},
            [0.01, 0.01, 0.005, 0.0025, 0.00125, 0.000625], None,
        ),
        ({"pretrain": of_net(0.7), "learning_rates": RATES}, [0.01, 0.7, 0.01, 0.01, 0.5, 0.5], [*RATES, 0.5]),
        (
            {"pretrain": of_net(0.7), "pretrain_learning_rate": 0.8, **FALLING},
            [0.8, 0.7, 0.8, 0.01, 0.005, 0.0025], None,
        ),
    ],
)  # fmt: skip
def test_learning_rates_around_a_pretraining(options, expected, noted, tmp_path, capsys):
    pretrain = {"construction_algo": "no_network_modifications", "repetitions": 3}
    rates = str(tmp_path / "rates")
    options = {"network": {"output": softmax("data")}, "pretrain": pretrain, "learning_rate_file": rates, **options}
    for num_epochs in (3, 6):  # begins again behind the pretraining
        train(tmp_path, num_epochs=num_epochs, **options)
        tf.compat.v1.reset_default_graph()
    output = capsys.readouterr().out
    assert trained_rates(output) == expected
    assert ("'learning_rates' does not count in pretraining" in output) == (noted is not None)
    recorded = read_learning_rate_file(rates)
    assert [recorded[epoch].learning_rate for epoch in range(1, 7)] == pytest.approx(noted or expected)


def test_learning_rate_of_a_net_counts_without_a_pretraining(tmp_path, capsys):
    def get_network(epoch):
        net = {"output": softmax("data")}
        return {**net, "#config": {"learning_rate": 0.7}} if epoch == 2 else net

    train(tmp_path, network=None, get_network=get_network, num_epochs=3, learning_rates=RATES)
    assert trained_rates(capsys.readouterr().out) == [0.1, 0.7, 0.3]


def test_greedy_pretraining_trains_new_layers_alone(tmp_path):
    train(tmp_path, network=DEEP, pretrain={"greedy": True}, num_epochs=2, learning_rate=0.1)
    first, second = parameters(tmp_path / "net.pretrain.001"), parameters(tmp_path / "net.pretrain.002")
    numpy.testing.assert_array_equal(second["h0/W"], first["h0/W"])
    assert (second["output/W"] != first["output/W"]).any()


def test_options_of_a_net_hold_as_long_as_it_does(tmp_path):
    def algo(idx, net):
        net["#config"] = {"max_seqs": 5 * (idx + 1), "learning_rate": 0.5}
        return net if idx < 2 else None

    def get_network(epoch):
        net = dict(net_small)
        if epoch == 1:
            net["#config"] = {"max_seqs": 5, "dev": None}
        return net

    net_small = {"output": softmax("data")}
    engine = Engine(config(tmp_path, network=net_small, pretrain={"construction_algo": algo}, num_epochs=3))
    engine.init_train_from_config()
    assert engine.config.int("max_seqs", 0) == 5
    assert engine.orig_config == {"max_seqs": 10, "learning_rate": 0.01}
    engine.train()
    assert engine.config.int("max_seqs", 0) == 10
    assert engine.orig_config == {}
    assert engine.learning_rate_control.epoch_data[3].learning_rate == 0.01
    assert engine.learning_rate_control.epoch_data[1].learning_rate == 0.5
    engine.finalize()
    engine = Engine(config(tmp_path / "2", network=None, get_network=get_network, num_epochs=2))
    engine.init_train_from_config()
    engine.train()
    assert engine.config.int("max_seqs", 0) == 10
    assert "dev" not in engine.config.typed_dict
    engine.finalize()


def test_get_network_is_asked_in_each_epoch_but_built_when_it_changes(tmp_path, capsys):
    asked = []

    def get_network(epoch, step=None, **_kwargs):
        asked.append((epoch, step))
        dim = FeatureDim("hidden", 3)
        hidden = linear("data") | {"out_dim": dim, "dropout": 0.1 if epoch <= 2 else 0.2}
        del hidden["n_out"]
        extra = {"eval": {"class": "eval", "from": "hidden", "eval": lambda source, **_: source(0)}}
        return {"hidden": hidden, **extra, "output": softmax("eval")}

    train(tmp_path, network=None, get_network=get_network, num_epochs=3)
    output = capsys.readouterr().out
    assert asked[-1] == (3, 4)
    assert "epoch 2: has another network" not in output
    assert "epoch 3: has another network" in output
    assert "start anew" not in output


def test_values_by_epoch_in_a_plain_network(tmp_path, capsys):
    net = {"h": linear("data", dropout=WrapEpochValue(lambda epoch: 0.1 if epoch < 2 else 0.3)), "output": softmax("h")}
    train(tmp_path, network=net, num_epochs=3)
    output = capsys.readouterr().out
    assert "epoch 2: has another network" in output
    assert "epoch 3: has another network" not in output


def test_reinit_network_each_epoch(tmp_path, capsys):
    calls = []
    train(
        tmp_path, num_epochs=3, reinit_network_each_epoch=True,
        init_new_network_callback=lambda engine, epoch, **_: calls.append(epoch),
    )  # fmt: skip
    assert capsys.readouterr().out.count("has another network") == 2
    assert calls == [1, 2, 3]


def test_net_that_is_not_trainable(tmp_path):
    frozen = {"class": "subnetwork", "from": "data", "subnetwork": {"#trainable": False, "output": linear("data")}}
    train(tmp_path, network={"sub": frozen, "output": softmax("sub")}, num_epochs=2)
    first, second = parameters(tmp_path / "net.001"), parameters(tmp_path / "net.002")
    numpy.testing.assert_array_equal(first["sub/output/W"], second["sub/output/W"])
    assert (first["output/W"] != second["output/W"]).any()


def test_decoding_uses_the_network_of_the_epoch(tmp_path):
    options = {"network": DEEP, "pretrain": "default", "dev": DEV}
    train(tmp_path, num_epochs=2, **options)
    for epoch, num_layers in ((1, 3), (2, 4)):
        engine = Engine(config(tmp_path, task="eval", load_epoch=epoch, **options))
        engine.init_network_from_config()
        assert len(engine.network.layers) == num_layers
        engine.finalize()


def _with_depth(epoch, **_kwargs):
    return {"h0": linear("data"), "h1": linear("h0"), "output": softmax("h0" if epoch <= 2 else "h1")}


@pytest.mark.parametrize(
    "options",
    [
        {"network": DEEP, "pretrain": "default", "num_epochs": 4},
        {"network": DEEP, "pretrain": "default"},  # a config of other tasks alone need not say it: 1
        {"network": None, "get_network": _with_depth, "num_epochs": 4},
    ],
    ids=["pretrain", "num_epochs of another training", "get_network"],
)
@pytest.mark.parametrize("task", ["eval", "search", "forward"])
def test_a_model_of_unknown_epoch_has_the_last_network(task, options, tmp_path, capsys):
    train(tmp_path, **{**options, "num_epochs": 4})
    for suffix in (".index", ".data-00000-of-00001"):
        (tmp_path / f"net.004{suffix}").rename(tmp_path / f"best{suffix}")
    capsys.readouterr()
    engine = Engine(config(tmp_path, task=task, load=str(tmp_path / "best"), **options))
    engine.init_network_from_config()
    (source,) = engine.network.layers["output"].sources
    assert source.name == ("h2" if options["network"] else "h1")
    assert engine.epoch == 0
    assert "only in the checkpoint" not in capsys.readouterr().out
    engine.finalize()


def test_a_training_that_loads_a_model_begins_with_the_first_network(tmp_path):
    train(tmp_path, network=DEEP, pretrain="default", num_epochs=1)
    for suffix in (".index", ".data-00000-of-00001"):
        (tmp_path / f"net.pretrain.001{suffix}").rename(tmp_path / f"best{suffix}")
    (tmp_path / "2").mkdir()
    train(tmp_path / "2", network=DEEP, pretrain="default", import_model_train_epoch1=str(tmp_path / "best"))
    assert "h1/W" not in parameters(tmp_path / "2" / "net.pretrain.001")


def test_layers_that_a_network_lacks_are_a_warning(tmp_path, capsys):
    loop = {
        "class": "rec", "from": "h0", "optimize_move_layers_out": False,
        "unit": {"s": linear("data:source"), "t": linear("s"), "output": linear("t")},
    }  # fmt: skip
    aux = {**softmax("h0"), "only_on_eval": True}
    net = {"h0": linear("data"), "loop": loop, "aux": aux, "h1": linear("loop"), "output": softmax("h1")}
    train(tmp_path, network=net, optimizer={"class": "adam"})
    smaller = {**net, "loop": {**loop, "unit": {"s": loop["unit"]["s"], "output": linear("s")}}}
    del smaller["h1"]
    smaller["output"] = softmax("loop")

    def said(net):
        capsys.readouterr()
        engine = Engine(config(tmp_path, task="forward", network=net))
        engine.use_eval_flag = False
        engine.init_network_from_config()
        assert "aux" not in engine.network.layers
        engine.finalize()
        return capsys.readouterr().out

    output = said(net)
    assert "2 only in the checkpoint, are not loaded: 'aux/W', 'aux/b'" in output
    assert "WARNING" not in output
    assert "2 layers with trained parameters are not in the network: 'h1', 'loop/t'. It computes" in said(smaller)


def test_training_goes_on_from_the_best_epoch(tmp_path, capsys):
    options = {"dev": DEV, "learning_rate_file": str(tmp_path / "lr"), "learning_rates": [0.01, 5.0, 0.0]}
    train(tmp_path, num_epochs=3, optimizer={"class": "sgd"}, use_last_best_model={"modulo": 3}, **options)
    output = capsys.readouterr().out
    assert "epoch 3: goes on from epoch 1, the best one so far" in output
    first, last = parameters(tmp_path / "net.001"), parameters(tmp_path / "net.003")
    numpy.testing.assert_array_equal(first["hidden/W"], last["hidden/W"])


def test_training_that_goes_on_takes_the_learning_rates_of_the_config(tmp_path, capsys):
    options = {"dev": DEV, "learning_rate_file": str(tmp_path / "lr")}
    train(tmp_path, num_epochs=1, learning_rates=[0.01, 0.02], **options)
    train(tmp_path, num_epochs=3, learning_rates=[0.01, 0.005, 0.004], **options)
    assert re.findall(r"train epoch (\d), learning rate (.*)", capsys.readouterr().out) == [
        ("1", "0.01"), ("2", "0.005"), ("3", "0.004"),
    ]  # fmt: skip


def test_epoch_that_was_not_evaluated_is_now(tmp_path, capsys):
    options = {"dev": DEV, "learning_rate_file": str(tmp_path / "lr")}
    train(tmp_path, num_epochs=1, **options)
    text = (tmp_path / "lr").read_text()
    (tmp_path / "lr").write_text(text.replace("dev_", "other_"))
    capsys.readouterr()
    train(tmp_path, num_epochs=2, **options)
    output = capsys.readouterr().out
    assert output.index("dev epoch 1") < output.index("train epoch 2")
    assert (tmp_path / "lr").read_text().count("'dev_score'") == 2


def test_model_files_before_the_first_epoch_and_with_missing_parameters(tmp_path):
    train(tmp_path, save_epoch1_initial_model=True)
    assert names(tmp_path) == ["net.000", "net.001"]
    net = {"hidden": linear("data"), "more": linear("hidden"), "output": softmax("more")}
    options = {"network": net, "import_model_train_epoch1": str(tmp_path / "net.001"), "learning_rate": 0.0}
    with pytest.raises(UserError, match="parameters are not in it"):
        train(tmp_path / "2", **options)
    train(tmp_path / "2", load_ignore_missing_vars=True, **options)
    old, new = parameters(tmp_path / "net.001"), parameters(tmp_path / "2" / "net.001")
    numpy.testing.assert_array_equal(old["hidden/W"], new["hidden/W"])


def test_preloaded_parameters_win_over_the_model(tmp_path):
    train(tmp_path)
    train(tmp_path / "2", random_seed=7)
    preload = {"all": {"filename": str(tmp_path / "net.001"), "init_for_train": "always"}}
    engine = Engine(config(tmp_path / "2", num_epochs=2, preload_from_files=preload))
    engine.init_train_from_config()
    value = engine.tf_session.run(engine.network.layers["hidden"].params["W"])
    numpy.testing.assert_array_equal(value, parameters(tmp_path / "net.001")["hidden/W"])
    engine.finalize()


def test_the_optimizer_of_a_preloaded_model_stays_there(tmp_path):
    train(tmp_path)
    net = {"hidden": linear("data", n_out=5), "output": softmax("hidden")}
    ignored = ["hidden/W", "hidden/b", "output/W"]
    preload = {"all": {"filename": str(tmp_path / "net.001"), "init_for_train": True, "ignore_params": ignored}}
    made = config(tmp_path / "2", network=net, preload_from_files=preload, optimizer={"class": "adam"})
    engine = Engine(made)
    engine.init_train_from_config()
    values = engine.tf_session.run({var.op.name: var for var in engine.updater.optimizer_vars})
    assert any("output/b" in name for name in values)
    for name, value in values.items():
        assert numpy.all(value == 0) or "beta" in name or "iteration" in name, name
    numpy.testing.assert_array_equal(
        engine.tf_session.run(engine.network.layers["output"].params["b"]), parameters(tmp_path / "net.001")["output/b"]
    )
    engine.finalize()


@pytest.mark.parametrize("ignore_missing", [False, True])
def test_a_file_to_preload_that_is_missing(ignore_missing, tmp_path):
    file = {"filename": "nowhere/net.001", "init_for_train": True, "ignore_missing": ignore_missing}
    with pytest.raises(
        ConfigError, match=r"^option 'preload_from_files': 'old': checkpoint 'nowhere/net\.001' does not exist"
    ):
        Engine(config(tmp_path, preload_from_files={"old": file})).init_train_from_config()


def test_start_in_the_middle_of_an_epoch(tmp_path):
    train(tmp_path, start_batch=1)
    assert parameters(tmp_path / "net.001")["global_step"] == 1
    with pytest.raises(ConfigError, match="option 'start_batch': got 'x', but expected 'auto' or an integer from 0"):
        train(tmp_path / "2", start_batch="x")
    with pytest.raises(ConfigError, match="option 'start_batch': is 3, but epoch 1 has fewer batches"):
        train(tmp_path / "2", start_batch=3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"network": {"#confg": {}, "output": softmax("data")}}, "there is no key '#confg'.\n  Did you mean '#config'"),
        ({"network": {"#config": 3, "output": softmax("data")}}, "'#config' is 3.\n  It has to be a dict of options."),
        (
            {"network": {"#config": {"batch_siz": 3}, "output": softmax("data")}},
            "'#config': there is no option 'batch_siz'.\n  Did you mean 'batch_size'",
        ),
        ({"get_network": lambda epoch: None}, "option 'get_network': returned None for epoch 1."),
        ({"use_last_best_model": 3}, "option 'use_last_best_model': got 3, but expected True, False or a dict."),
        ({"cleanup_old_models": {"keep_bst": 1}}, "Did you mean 'keep_best_n'"),
        ({"use_last_best_model": {"modul": 3}, "num_epochs": 1}, "Did you mean 'modulo'"),
        ({"pretrain": {"copy_param_mode": "subsets"}, "network": DEEP, "num_epochs": 2}, "Did you mean 'subset'"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_wrong_options_are_named(options, message, tmp_path):
    with pytest.raises(UserError) as info:
        train(tmp_path, **options)
    assert message in str(info.value)
    assert len(str(info.value).splitlines()) <= 5
