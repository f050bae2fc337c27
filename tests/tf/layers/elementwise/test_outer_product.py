"""Outer products by mistake are told of, by `++task check` and at the start."""

import pytest
import tensorflow as tf

from returnn.config import Config
from returnn.log import log
from returnn.tf.engine import Engine
from returnn.tf.inspection.config_check import check_config
from returnn.util.behavior_version import BehaviorVersion
from returnn.util.system.warn_once import forget_shown

EXTERN_DATA = {"data": {"dim": 9, "shape": (None, 9)}}


def linear(size, source="data"):
    return {"class": "linear", "activation": "tanh", "n_out": size, "from": source}


def network(layer, *, in_loop):
    """:return: with "x", made from a and c of 4 features, and b of 5; or within a loop"""
    layers = {"a": linear(4), "b": linear(5), "c": linear(4), "x": layer}
    if not in_loop:
        return {**layers, "output": {"class": "copy", "from": "x"}}
    sources = {name: {**options, "from": "prev:h"} for name, options in layers.items() if name != "x"}
    unit = {**sources, "x": layer, "h": linear(4, "data:source"), "output": {"class": "copy", "from": "x"}}
    return {"output": {"class": "rec", "from": "data", "unit": unit}}


@pytest.fixture(autouse=True)
def fresh():
    forget_shown()
    yield
    tf.compat.v1.reset_default_graph()


def warnings_of(net_dict, capsys):
    """:return: those of the check; asserts that the start has the same"""
    config = Config({"extern_data": EXTERN_DATA, "network": net_dict, "allow_random_model_init": True, "task": "eval"})
    warnings = [text for text in check_config(config).warnings if "outer product" in text]
    capsys.readouterr()
    log.initialize(verbosity=[5])
    engine = Engine(config)
    engine.init_network_from_config()
    engine.finalize()
    lines = [line for line in capsys.readouterr().out.splitlines() if "outer product" in line]
    begins = [line.partition(" dims: ")[0] for line in lines]  # behind that, layers outside of loops have all frames
    assert begins == [f"WARNING: {text}".partition(" dims: ")[0] for text in warnings]
    return warnings


@pytest.mark.parametrize("in_loop", [False, True])
@pytest.mark.parametrize("options", [{"class": "combine", "kind": "add"}, {"class": "compare", "kind": "less"}])
def test_warning_of_an_outer_product(options, in_loop, capsys):
    (warning,) = warnings_of(network({**options, "from": ["a", "b"]}, in_loop=in_loop), capsys)
    name = "output/x" if in_loop else "x"
    assert f"layer {name!r} (class {options['class']!r}): an outer product, as no source has all dims" in warning
    assert "(4)]" in warning
    assert "(5)]" in warning
    meant = {**options, "from": ["a", "b"], "allow_broadcast_all_sources": True}
    assert warnings_of(network(meant, in_loop=in_loop), capsys) == []
    assert warnings_of(network({**options, "from": ["a", "c"]}, in_loop=in_loop), capsys) == []


SUM = {"class": "eval", "eval": "source(0) + source(1)", "from": ["a", "b"]}
CHOICE = {"class": "switch", "condition": "is_large", "true_from": "a", "false_from": "b"}
IS_LARGE = {"class": "compare", "kind": "greater", "value": 0, "from": "a"}


def with_condition(layer, *, in_loop):
    """:return: `network`, with a condition for `switch`"""
    net_dict = network(layer, in_loop=in_loop)
    (net_dict["output"]["unit"] if in_loop else net_dict)["is_large"] = IS_LARGE
    return net_dict


@pytest.mark.parametrize("in_loop", [False, True])
@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        (SUM, {**SUM, "from": ["a", "c"]}),
        (SUM, {**SUM, "allow_broadcast_all_sources": True}),
        ({**SUM, "class": "combine", "kind": "eval"}, {**SUM, "eval": "tf.nn.relu(source(0))", "from": "a"}),
        (CHOICE, {**CHOICE, "false_from": "c"}),
        (CHOICE, {**CHOICE, "false_from": 0}),
    ],
)
def test_expressions_and_choices_with_other_feature_dims(wrong, right, in_loop, capsys):
    (warning,) = warnings_of(with_condition(wrong, in_loop=in_loop), capsys)
    name = "output/x" if in_loop else "x"
    assert f"layer {name!r} (class {wrong['class']!r}): an outer product, as no source has all feature dims" in warning
    assert warnings_of(with_condition(right, in_loop=in_loop), capsys) == []


def test_an_expression_that_says_its_output_is_no_mistake(capsys):
    product = {**SUM, "eval": "tf.reduce_sum(source(0) * source(1), axis=-1)", "out_type": {"dim": 4}}
    report = check_config(Config({"extern_data": EXTERN_DATA, "network": network(product, in_loop=False)}))
    assert [text for text in report.warnings if "outer product" in text] == []


def test_a_frame_beside_what_the_loop_has_not_is_none(capsys):
    unit = {"x": {"class": "combine", "kind": "add", "from": ["data:source", "base:bias"]}, "output": linear(4, "x")}
    layers = {"bias": {"class": "variable", "shape": (9,)}}
    assert warnings_of({**layers, "output": {"class": "rec", "from": "data", "unit": unit}}, capsys) == []


def test_since_version_4_it_is_an_error():
    BehaviorVersion.set(4)
    net_dict = network({"class": "combine", "kind": "add", "from": ["a", "b"]}, in_loop=False)
    report = check_config(Config({"extern_data": EXTERN_DATA, "network": net_dict}))
    assert any("add: the dims do not match" in error for error in report.errors)
