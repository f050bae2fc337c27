"""Optimizers, groups of parameters, gradients, and the learning rate of a step."""

import pytest
import torch

import returnn.frontend as rf
from returnn.config import Config
from returnn.tensor import Dim
from returnn.torch.optim.optimizer_choice import choose_optimizer
from returnn.torch.optim.step_rules import StepTime, learning_rate_of_step
from returnn.torch.updater import NonFiniteGradient, Updater
from returnn.util.errors import ConfigError
from returnn.util.system.warn_once import forget_shown

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


def test_a_function_says_what_gets_weight_decay():
    def is_decayed(*, module, rf_module, full_param_name, param_name):
        assert rf_module is module
        asked.append((full_param_name, param_name))
        return {"embedding.weight": True, "linear.weight": False}.get(full_param_name)

    asked = []
    options = {"class": "adamw", "weight_decay": 0.1, "weight_decay_custom_include_check": is_decayed}
    groups = {group["weight_decay"]: names for names, group in named_groups(make(optimizer=options))}
    assert groups[0.1] == {"embedding.weight"}
    assert groups[0.0] == {"linear.weight", "linear.bias", "norm.scale", "norm.bias"}
    assert ("norm.scale", "scale") in asked
    with pytest.raises(ConfigError, match="'weight_decay_custom_include_check': the function cannot be called"):
        choose_optimizer({**options, "weight_decay_custom_include_check": lambda module: True})


def test_updates_with_a_gradient_that_is_not_finite_are_left_out_so_many_times_in_a_row(capsys):
    updater = make(num_allowed_consec_invalid_gradient_steps=2, learning_rate=0.1)
    before = updater.parameters["linear.weight"].detach().clone()

    def step(number, *, finite):
        total = updater.parameters["linear.weight"].sum()
        updater.step(total if finite else (total * 0.0).sqrt(), StepTime(number))
        return not torch.equal(before, updater.parameters["linear.weight"])

    assert [step(0, finite=False), step(1, finite=False), step(2, finite=True)] == [False, False, True]
    text = "training step 1: a gradient is not finite, so there is no update (2 in a row, of 2 that are allowed)"
    assert text in capsys.readouterr().out
    step(3, finite=False)
    step(4, finite=False)
    with pytest.raises(NonFiniteGradient, match=r"It is that of 'linear\.weight'"):
        step(5, finite=False)


def test_learning_rates_of_groups():
    options = {
        "class": "sgd",
        "learning_rate_multiplier": 2.0,
        "learning_rate_multipliers_by_patterns": {"linear.*": 0.5},
    }
    updater = make(optimizer=options, learning_rate=0.1)
    before = {name: value.detach().clone() for name, value in updater.parameters.items()}
    updater.step(objective(updater), StepTime())
    for name, value in updater.parameters.items():
        rate = 0.1 if name.startswith("linear.") else 0.2
        torch.testing.assert_close(value.detach(), before[name] * (1 - 2 * rate))


@pytest.mark.parametrize("is_frozen", [False, True])
def test_a_pattern_that_only_frozen_parameters_fit_is_a_warning(is_frozen, caplog):
    options = {"class": "sgd", "learning_rate_multipliers_by_patterns": {"linear.*": 0.5, "norm.*": 2.0}}
    model = make().model
    for parameter in model.linear.parameters():
        parameter.trainable = not is_frozen
    trained = {name: param.raw_tensor for name, param in model.named_parameters() if param.raw_tensor.requires_grad}
    caplog.clear()
    optimizer = choose_optimizer(options).create(trained, model, 1.0)
    assert {group["lr"] for group in optimizer.param_groups} == ({1.0, 2.0} if is_frozen else {0.5, 1.0, 2.0})
    text = "'linear.*' has no effect. It fits to 2 parameters, such as 'linear.weight', not trained"
    assert (text in caplog.text) is is_frozen
    options["learning_rate_multipliers_by_patterns"] = {"linaer.*": 0.5}
    with pytest.raises(ConfigError, match=r"no parameter is named as 'linaer\.\*'"):
        choose_optimizer(options).create(trained, model, 1.0)


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
    ({"class": "adamw", "param_groups_custom": lambda model: []}, "cannot be called, .*'rf_model'"),
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
    def groups(*, model, rf_model, optimizer_class, optimizer_opts):
        assert rf_model is model
        assert optimizer_class is torch.optim.SGD
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
    updater.step(objective(updater, 10.0), StepTime())
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
        collected.step(objective(collected), StepTime(step))
    at_once.step(2 * objective(at_once), StepTime())
    for name, value in at_once.parameters.items():
        torch.testing.assert_close(value, collected.parameters[name])
    before = collected.parameters["linear.weight"].detach().clone()
    collected.step(objective(collected), StepTime(2))
    assert torch.equal(before, collected.parameters["linear.weight"])
    collected.update()  # the end of the epoch
    assert not torch.equal(before, collected.parameters["linear.weight"])


def test_state_of_another_optimizer():
    adam, sgd = make(optimizer="adam"), make(optimizer={"class": "sgd", "momentum": 0.9})
    adam.step(objective(adam), StepTime())
    with pytest.raises(ConfigError, match="is of another optimizer or model: that one has 'amsgrad', 'betas'"):
        sgd.load_state(adam.state())
    with pytest.raises(ConfigError, match="it has 'weights', and no 'param_groups'"):
        adam.load_state({"weights": 1})
    adam.load_state(adam.state()["optimizer"])
    state = adam.state()
    with pytest.raises(ConfigError, match=r"only one of them has 'linear\.bias', 'other'"):
        adam.load_state({**state, "param_names": ["other" if n == "linear.bias" else n for n in state["param_names"]]})


def test_a_state_finds_its_parameters_by_name():
    """PyTorch goes by the order in the groups, which are others with weight decay for some parameters."""
    adam = make(optimizer="adam")
    adam.step(objective(adam), StepTime())
    wanted = {name: value.clone() for name, value in adam.state_tensors().items()}
    decayed = make(optimizer={"class": "adamw", "weight_decay": 0.1})
    decayed.load_state(adam.state())
    assert decayed.state()["param_names"] != adam.state()["param_names"]
    assert all(torch.equal(value, wanted[name]) for name, value in decayed.state_tensors().items())
    assert {group["weight_decay"] for group in decayed.optimizer.param_groups} == {0.0, 0.1}
    del (state := decayed.state())["param_names"]
    again = make(optimizer={"class": "adamw", "weight_decay": 0.1})
    again.load_state(state)  # as other files have it: the order counts
    assert all(torch.equal(value, wanted[name]) for name, value in again.state_tensors().items())
    with pytest.raises(ConfigError, match="its values have other shapes"):
        make(optimizer="adam").load_state(state)


def test_nothing_to_train():
    model = Model()
    with pytest.raises(ConfigError, match="no trainable parameters"):
        Updater(Config({}), model, {}, device=torch.device("cpu"))
    updater = make()
    with pytest.raises(ConfigError, match="the losses depend on none of the 5 parameters"):
        updater.step(torch.tensor(1.0), StepTime())


def test_accumulation_by_a_function():
    def num_steps(*, epoch, epoch_continuous, global_train_step, **_):
        asked.append((epoch, epoch_continuous, global_train_step))
        return epoch

    asked = []
    updater = make(accum_grad_multiple_step=num_steps, learning_rate=0.1)
    values, changed = updater.parameters["linear.weight"].detach().clone(), []
    for step, time in enumerate((0.5, 1.0, 1.25, 1.5, 1.75, 2.0)):
        updater.step(objective(updater), StepTime(step, 1 + (time > 1.0), time))
        changed.append(not torch.equal(values, updater.parameters["linear.weight"]))
        values = updater.parameters["linear.weight"].detach().clone()
    assert changed == [True, True, False, True, False, True]
    assert (2, 1.25, 2) in asked
    with pytest.raises(ConfigError, match="has to be as: def accum_grad_multiple_step"):
        make(accum_grad_multiple_step=lambda step: 1)
    wrong = make(accum_grad_multiple_step=lambda **_: 1.5)
    with pytest.raises(ConfigError, match=r"has to return a number of steps, not 1\.5"):
        wrong.step(objective(wrong), StepTime())


def test_dynamic_learning_rate():
    time, options = StepTime(15, 3, 2.25), {"learning_rate": 2.0, "network": None}
    assert learning_rate_of_step(None, time, **options) == 2.0
    assert learning_rate_of_step({"interval": 10, "decay": 0.25}, time, **options) == pytest.approx(1.0)

    def rate(*, global_train_step, learning_rate, epoch, epoch_continuous, **_):
        return (global_train_step, learning_rate, epoch, epoch_continuous) == (15, 2.0, 3, 2.25)

    assert learning_rate_of_step(rate, time, **options) == 1.0
    with pytest.raises(ConfigError, match="the function cannot be called"):
        make(dynamic_learning_rate=lambda x: x)
    for wrong in (None, "0.1", [1.0, 2.0], float("nan"), torch.zeros(2)):
        with pytest.raises(ConfigError) as info:
            learning_rate_of_step(lambda wrong=wrong, **_: wrong, time, **options)
        text = f"option 'dynamic_learning_rate': the function returned {wrong!r} in training step 15.\n  It has to be a"
        assert str(info.value).startswith(text)
        assert ("`return`" in str(info.value)) is (wrong is None)
    assert learning_rate_of_step(lambda **_: torch.tensor(0.5), time, **options) == 0.5
    with pytest.raises(ConfigError, match="Did you mean 'decay'"):
        make(dynamic_learning_rate={"interval": 10, "decy": 0.25})


@pytest.mark.parametrize("eps", [None, (None, 1e-3), (1e-18, 1e-3), (1e-30, 1e-3), (0, 1e-3)])
def test_epsilon_of_adafactor_that_is_too_small_for_gradients_of_0(eps, caplog):
    forget_shown()
    choice = choose_optimizer({"class": "adafactor", **({} if eps is None else {"eps": eps})})
    parameter = torch.nn.Parameter(torch.ones(4, 5))
    parameter.grad = torch.ones(4, 5)
    parameter.grad[1], parameter.grad[:, 2] = 0, 0
    choice.create({"x": parameter}, torch.nn.Module(), 0.1).step()
    is_finite = bool(torch.isfinite(parameter).all())
    assert is_finite is (eps is None or eps[0] not in (1e-30, 0))
    assert ("PyTorch takes the square of" in caplog.text) is not is_finite
