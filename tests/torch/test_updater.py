"""Optimizers, groups of parameters, gradients, and the learning rate of a step."""

import pytest
import torch

import returnn.frontend as rf
from returnn.config import Config
from returnn.tensor import Dim
from returnn.torch.optim.optimizer_choice import choose_optimizer
from returnn.torch.updater import Updater, dynamic_learning_rate
from returnn.util.errors import ConfigError

IN, OUT = Dim(3, name="in"), Dim(2, name="out")


class Model(rf.Module):
    def __init__(self):
        super().__init__()
        self.embedding = rf.Embedding(IN, OUT)
        self.linear = rf.Linear(IN, OUT)
        self.norm = rf.LayerNorm(OUT)


@pytest.fixture(autouse=True)
def backend():
    rf.select_backend_torch()
    torch.manual_seed(1)
    yield
    rf.select_backend_numpy()


def make(**options):
    model = Model()
    parameters = {name: param.raw_tensor for name, param in model.named_parameters()}
    return Updater(Config(options), model, parameters, device=torch.device("cpu"))


def objective(updater, factor=1.0):
    return factor * sum((value**2).sum() for value in updater.parameters.values())


def named_groups(updater):
    names = {id(value): name for name, value in updater.parameters.items()}
    return [({names[id(p)] for p in group["params"]}, group) for group in updater.optimizer.param_groups]


def test_what_gets_weight_decay():
    (others, group), decayed = named_groups(make(optimizer={"class": "adamw", "weight_decay": 0.1}))
    assert decayed[0] == {"linear.weight"}
    assert decayed[1]["weight_decay"] == 0.1
    assert others == {"embedding.weight", "linear.bias", "norm.scale", "norm.bias"}
    assert group["weight_decay"] == 0.0
    (decayed, _), _ = named_groups(
        make(optimizer={"class": "AdamW", "weight_decay": 0.1, "weight_decay_modules_blacklist": ["rf.LayerNorm"]})
    )
    assert decayed == {"linear.weight", "embedding.weight"}


def test_learning_rates_of_groups():
    options = {
        "class": "sgd",
        "learning_rate_multiplier": 2.0,
        "learning_rate_multipliers_by_patterns": {"linear.*": 0.5},
    }
    updater = make(optimizer=options, learning_rate=0.1)
    before = {name: value.detach().clone() for name, value in updater.parameters.items()}
    updater.step(objective(updater), train_step=0, epoch=1)
    for name, value in updater.parameters.items():
        rate = 0.1 if name.startswith("linear.") else 0.2
        torch.testing.assert_close(value.detach(), before[name] * (1 - 2 * rate))


@pytest.mark.parametrize(("optimizer", "message"), [
    ("adamww", "there is no optimizer 'adamww'"),
    ({"weight_decay": 0.1}, "has no 'class'"),
    ({"class": "adamw", "weight_deacy": 0.1}, "Did you mean 'weight_decay'"),
    ({"class": "adamw", "lr": 0.1}, "changes during training"),
    ({"class": "adamw", "weight_decay": 0.1, "weight_decay_modules_blacklist": ["Embedding"]}, "no name such as"),
    ({"class": "adamw", "weight_decay": 0.1, "weight_decay_modules_blacklist": ["rf.Embeding"]}, "'Embedding'"),
    ({"class": "adamw", "learning_rate_multipliers_by_patterns": {"x.*": 1.0}}, r"no parameter is named as 'x.\*'"),
    ({"class": "adamw", "param_groups_custom": lambda **_: 3}, "has to return a list of dicts"),
    ({"class": "adamw", "param_groups_custom": 1}, "'param_groups_custom' has to be a function, not 1"),
    ({"class": "adamw", "param_groups_custom": IN}, "'param_groups_custom' is Dim.*, and no function"),
    ({"class": "adamw", "param_groups_custom": lambda model: []}, "cannot be called, .*'optimizer_opts'"),
    ({"class": "adamw", "learning_rate_multiplier": "2"}, "'learning_rate_multiplier' has to be a number, not '2'"),
    ({"class": "adamw", "weight_decay": 0.1, "weight_decay_modules_blacklist": 1}, "has to be a list .*, not 1"),
    ({"class": "adamw", "weight_decay": -1}, "Invalid weight_decay value"),
    ({"class": "adamw", "betas": 1}, r"AdamW.betas=1.: .*int"),
    ("lbfgs", "there is no optimizer 'lbfgs'"),
])  # fmt: skip
def test_errors(optimizer, message):
    with pytest.raises(ConfigError, match=message):
        make(optimizer=optimizer)
    if "has to return" not in message and "named as" not in message:
        with pytest.raises(ConfigError, match=message):  # the task `check` calls it
            choose_optimizer(optimizer)


@pytest.mark.parametrize(("options", "message"), [
    ({"weight_decay_modules_blacklist": ["rf.LayerNorm"]}, "has no effect without 'weight_decay'"),
    ({"weight_decay": 0.1, "weight_decay_modules_blacklist": ["rf.LayerNorm"], "param_groups_custom": lambda **_: []},
        "'weight_decay_modules_blacklist' has no effect beside 'param_groups_custom'"),
])  # fmt: skip
def test_options_without_effect_are_warned_of(options, message, capsys):
    choose_optimizer({"class": "adamw", **options})
    assert message in capsys.readouterr().out


def test_without_weight_decay_in_the_dict_the_default_is_for_all():
    ((names, group),) = named_groups(make(optimizer="adamw"))
    assert names == {"embedding.weight", "linear.weight", "linear.bias", "norm.scale", "norm.bias"}
    assert group["weight_decay"] == 0.01


def test_groups_of_a_function():
    def groups(*, model, optimizer_opts):
        return [
            {"params": [model.linear.weight], "learning_rate_multiplier": 3.0, "momentum": optimizer_opts["momentum"]}
        ]

    updater = make(optimizer={"class": "sgd", "momentum": 0.5, "param_groups_custom": groups}, learning_rate=0.1)
    ((names, group),) = named_groups(updater)
    assert names == {"linear.weight"}
    assert group["lr"] == pytest.approx(0.3)


def gradients_after(**options):
    updater = make(learning_rate=1.0, optimizer="sgd", **options)
    before = {name: value.detach().clone() for name, value in updater.parameters.items()}
    updater.step(objective(updater, 10.0), train_step=0, epoch=1)
    return {name: before[name] - value.detach() for name, value in updater.parameters.items()}


def norm(values):
    return torch.cat([value.flatten() for value in values]).norm()


def test_clipping():
    plain = gradients_after()
    for value in gradients_after(gradient_clip=0.5).values():
        assert value.abs().max() <= 0.5 + 1e-6
    for value in gradients_after(gradient_clip_norm=0.5).values():
        assert value.norm() <= 0.5 + 1e-5
    assert norm(gradients_after(gradient_clip_global_norm=0.5).values()) == pytest.approx(0.5, abs=1e-4)
    assert not norm(gradients_after(grad_norm_to_clip_to_zero=0.5).values())
    assert norm(gradients_after(gradient_noise=0.1).values()) != norm(plain.values())


def test_gradients_of_several_steps_are_summed():
    collected, at_once = make(accum_grad_multiple_step=2, learning_rate=0.1), make(learning_rate=0.1)
    for name, value in at_once.parameters.items():
        value.data.copy_(collected.parameters[name].data)
    for step in range(2):
        collected.step(objective(collected), train_step=step, epoch=1)
    at_once.step(2 * objective(at_once), train_step=0, epoch=1)
    for name, value in at_once.parameters.items():
        torch.testing.assert_close(value, collected.parameters[name])
    before = collected.parameters["linear.weight"].detach().clone()
    collected.step(objective(collected), train_step=2, epoch=1)
    assert torch.equal(before, collected.parameters["linear.weight"])
    collected.update(train_step=3, epoch=1)  # the end of the epoch
    assert not torch.equal(before, collected.parameters["linear.weight"])


def test_state_of_another_optimizer():
    adam, sgd = make(optimizer="adam"), make(optimizer={"class": "adamw", "weight_decay": 0.1})
    adam.step(objective(adam), train_step=0, epoch=1)
    with pytest.raises(ConfigError, match="is of another optimizer or model"):
        sgd.load_state(adam.state())


def test_nothing_to_train():
    model = Model()
    with pytest.raises(ConfigError, match="no trainable parameters"):
        Updater(Config({}), model, {}, device=torch.device("cpu"))
    updater = make()
    with pytest.raises(ConfigError, match="the losses depend on none of the 5 parameters"):
        updater.step(torch.tensor(1.0), train_step=0, epoch=1)


def test_dynamic_learning_rate():
    options = {"learning_rate": 2.0, "global_train_step": 15, "network": None, "epoch": 3}
    assert dynamic_learning_rate(None, **options) == 2.0
    assert dynamic_learning_rate({"interval": 10, "decay": 0.25}, **options) == pytest.approx(1.0)
    assert dynamic_learning_rate(lambda *, global_train_step, learning_rate, epoch, **_: epoch * 2, **options) == 6.0
    with pytest.raises(ConfigError, match="the function cannot be called"):
        dynamic_learning_rate(lambda x: x, **options)
    with pytest.raises(ConfigError, match="Did you mean 'decay'"):
        dynamic_learning_rate({"interval": 10, "decy": 0.25}, **options)
