"""
What is about all frames, wherever they are computed: losses, regularization, and running means of layers in loops in
loops, in conditions and masks in them, and moved out of some of them, are those of the same layers outside of all.
"""

import functools

import numpy
import pytest
import tensorflow as tf

from returnn.config import Config
from returnn.tensor import Tensor
from returnn.tf.updater import Updater
from tests.tf.layers.layer_net import LayerNet, batch_of

tf1 = tf.compat.v1
OTHER = {"class": "linear", "n_out": 6, "activation": "tanh", "name_scope": "/other", "L2": 0.3, "darc1": 0.2}
OPTIONS = {
    "L2": {"L2": 0.1},
    "darc1": {"darc1": 0.1},
    "spatial_smoothing": {"spatial_smoothing": 0.1},
    "loss": {"loss": "as_is", "loss_scale": 0.5},
    "mean": {},
}


def block(source, *, axes=("B",)):
    """:return: layers on a source, whose output is "output" """
    linear = {"class": "linear", "n_out": 6, "activation": "tanh", "from": source}
    layers = {kind: {**linear, **options, "name_scope": f"/layer_{kind}"} for kind, options in OPTIONS.items()}
    layers["running"] = {"class": "accumulate_mean", "exp_average": 0.25, "from": "mean", "axes": list(axes)}
    layers["running"].update({"name_scope": "/running", "is_output_layer": True})
    return {**layers, "output": {"class": "combine", "kind": "add", "from": list(OPTIONS)}}


def sub(layers, source):
    return {"class": "subnetwork", "from": source, "subnetwork": layers}


def loop(unit, source, axis, *, optimize=False):
    return {"class": "rec", "from": source, "axis": axis, "unit": unit, "optimize_move_layers_out": optimize}


def cond(layer, source, other=None):
    """:return: layers, of which "c" is the last one that is given; this is only known when it is computed"""
    no_dims = {"dims": (), "dtype": "bool"}
    is_true = {"class": "eval", "eval": f"tf.equal(tf.shape(source(0))[0] * 0, {int(other is not None)})"}
    is_true = {**is_true, "from": source, "out_type": lambda name, **_: Tensor(name, **no_dims)}
    branches = {"true_layer": layer, "false_layer": {**OTHER, "from": source} if other is None else other}
    c = {"class": "cond", "from": [], "condition": "is_true", **branches}
    return {"is_true": is_true, "c": c, "output": {"class": "copy", "from": "c"}}


def both_conds(layer, source):
    """:return: the same, by a "cond" that is a layer of another one"""
    layers = cond(layer, source)
    layers["c"] = cond(layers["c"], source)["c"]
    return layers


def masked(layer, source, axes="F"):
    """:return: layers, of which "c" is the other one in all frames, as a mask says"""
    return {
        "mean": {"class": "reduce", "mode": "mean", "axis": axes, "from": source},
        "mask": {"class": "compare", "from": "mean", "value": 1e9, "kind": "less"},
        "c": {"class": "masked_computation", "from": source, "mask": "mask", "unit": {**layer, "from": "data"}},
        "output": {"class": "copy", "from": "c"},
    }


SOURCE, ALL, IMAGE = "data:source", "all", "data:image"
ENTRIES = {"all": {"class": "merge_dims", "axes": ["T", "dim:4"], "from": "data:image"}}  # of all frames
COPY_I, COPY_L = ({"class": "copy", "from": name} for name in "il")


def loops(inner, *, optimize_inner=False):
    """:return: a loop over frames, and in there one over their entries"""
    return {"l": loop({"i": loop(inner, SOURCE, "dim:4", optimize=optimize_inner), "output": COPY_I}, IMAGE, "T")}


def inner_loop_in(around, **options):
    """:return: a loop over frames, and what is around one over their entries, which is in there"""
    return {"l": loop(around(loop(block(SOURCE), SOURCE, "dim:4", **options), SOURCE), IMAGE, "T")}


def in_loop(around):
    """:return: a loop over all entries of all frames, with the layers in something that is around them in there"""
    return {"l": loop(around(sub(block("data"), SOURCE), SOURCE), ALL, "T")}


NETS = {
    "outside": {"l": sub(block("data", axes=("B", "T")), ALL)},
    "moved out": {"l": loop(block(SOURCE), ALL, "T", optimize=True)},
    "loop": {"l": loop(block(SOURCE), ALL, "T")},
    "loop in loop": loops(block(SOURCE)),
    "moved out of the inner loop": loops(block(SOURCE), optimize_inner=True),
    "cond in loop": in_loop(cond),
    "second of cond in loop": in_loop(lambda layer, source: cond({**OTHER, "from": source}, source, layer)),
    "cond in cond in loop": in_loop(
        lambda layer, source: cond(sub(cond({**layer, "from": "data"}, "data"), source), source)
    ),
    "cond as layer of cond in loop": in_loop(both_conds),
    "cond in loop in loop": loops(cond(sub(block("data"), SOURCE), SOURCE)),
    "loop in cond in loop": inner_loop_in(cond),
    "loop, moved out, in cond in loop": inner_loop_in(cond, optimize=True),
    "mask in loop": in_loop(masked),
    "loop in mask in loop": inner_loop_in(
        lambda layer, source: masked({**layer, "from": "data"}, source, axes=["F", "dim:4"])
    ),
    "loop in cond": {**cond(loop(block(SOURCE), ALL, "T"), ALL), "l": {"class": "copy", "from": "c"}},
}  # fmt: skip
WITHOUT_RUNNING_MEAN = ("loop in cond",)  # this is an error


class Measured:
    """A network that takes steps of stochastic gradient descent with the rate 0.5, always from the same values."""

    def __init__(self, name):
        output = {**COPY_L, "loss": "as_is", "loss_scale": 0.1}
        net_dict = {**ENTRIES, **NETS[name], "output": output}
        if name in WITHOUT_RUNNING_MEAN:
            net_dict = without_running_mean(net_dict)
        self._net = net = LayerNet(net_dict, fetch=(), train_flag=True)
        with net.graph.as_default():
            updater = Updater(Config({}), net.net, 0.5)
            updater.set_trainable_vars(net.net.get_trainable_params())
            net.net.get_objective()
            loss = sum(x.get_loss_value() for key, x in net.net.losses_dict.items() if key != "output")
            self._totals = {"constraints": net.net.total_constraints, "loss": loss}
            self._step = [updater.get_optim_op(), net.net.get_post_control_dependencies()]
            self._params = net.net.get_params_list()
            self._read = {param.op.name: param.read_value() for param in self._params}
            net.session = tf1.Session(graph=net.graph)
            net.session.run(tf1.global_variables_initializer())
            updater.init_optimizer_vars(net.session)

    def __call__(self, padding=0.5):
        """:return: totals before a step; gradients, and running means after it"""
        session = self._net.session
        with self._net.graph.as_default():
            for param in self._params:
                values = numpy.sin(numpy.arange(param.shape.num_elements())).reshape(param.shape) * 0.5
                param.load(values, session)
        batch = batch_of(padding={"float32": padding, "int32": 0})
        self._net.fetches = self._totals
        values = self._net.run(batch)
        before = session.run(self._read)
        self._net.fetches = self._step
        self._net.run(batch)
        for name, value in session.run(self._read).items():
            if name.startswith("layer"):
                values[name] = (before[name] - value) / 0.5
            elif name.startswith("running"):
                values[name] = value
        return values


made = functools.cache(Measured)


def without_running_mean(desc):
    return {k: without_running_mean(x) if isinstance(x, dict) else x for k, x in desc.items() if k != "running"}


@pytest.mark.parametrize(("name", "padding"), [*((name, 0.5) for name in NETS), ("cond in loop in loop", -3.0)])
def test_is_that_of_all_frames(name, padding):
    expected, found = made("outside")(), made(name)(padding)
    assert len(expected) == len(found) + (name in WITHOUT_RUNNING_MEAN) == 2 + 2 * len(OPTIONS) + 1
    for key, value in found.items():
        numpy.testing.assert_allclose(value, expected[key], rtol=1e-4, atol=1e-5, err_msg=key)
        assert numpy.abs(value).max() > 1e-3
