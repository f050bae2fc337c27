"""
Random networks without loops: classes and options in combinations that nobody thought of.

A network grows layer by layer, by the rules in `rules_of_axes`, `rules_of_parts` and `rules_of_values`. Of each layer
it is known which dims it has (`Shape`), so that the next one fits: every network is one that has to work. The same
seed gives the same network.
"""

from __future__ import annotations

from random import Random
from typing import Any

from returnn.tf.util.data import FeatureDim, SpatialDim, batch_dim
from tests.fuzz import rules_of_axes, rules_of_parts, rules_of_values
from tests.fuzz.grammar import PRODUCTIONS, Net, Shape, is_frames

__all__ = ["add_data", "add_losses", "make_network", "rules_of_axes", "rules_of_parts", "rules_of_values"]

LOSS_AS_IS = {"loss": "as_is"}


def add_losses(net: Net) -> None:
    """Makes layers with targets, where there are some."""
    targets = net.extern_data
    if "classes" in targets and net.chance(0.8):
        name = net.pick(lambda s: s.is_frames and s.time == "time") or net.pick(is_frames)
        if name and net.shapes[name].time == "time":
            opts = net.random.choice(
                [
                    None,
                    None,
                    {"use_fused": False},
                    {"label_smoothing": 0.1},
                    {"focal_loss_factor": 2.0, "use_fused": False, "use_flatten_frames": False},
                    {"use_normalized_loss": True},
                ]
            )
            options = net.maybe({"loss_scale": [0.5, 2.0], "loss_only_on_non_search": True}, 0.2)
            if opts:
                options["loss_opts"] = opts
            net.add("prob", {"class": "softmax", "from": name, "loss": "ce", "target": "classes", **options}, None)
    if "reg" in targets:
        name = net.pick(lambda s: s.is_frames and s.time == "time")
        if name:
            loss = net.random.choice(["mse", "mean_l1", "l1", "mse"])
            net.add(
                "reg",
                {
                    "class": "linear",
                    "from": name,
                    "activation": None,
                    "n_out": targets["reg"]["n"],
                    "target": "reg",
                    "loss": loss,
                    **net.maybe({"loss_scale": 0.3}),
                },
                None,
            )
    if "labels" in targets:
        name = net.pick(lambda s: s.is_frames and s.time == "time")
        if name:
            too_long = {"ctc_opts": {"ignore_longer_outputs_than_inputs": True}}  # as the labels are random
            no_loop = {"use_native": True, "ctc_opts": {"label_loop": False}}
            opts = net.random.choice([too_long, {"use_native": True}, no_loop])
            loss = {"loss": "ctc", "target": "labels", "loss_opts": {"beam_width": 1, **opts}}
            net.add("ctcp", {"class": "softmax", "from": name, **loss}, None)
    for name, shape in list(net.shapes.items()):
        if name in net.layers and shape.dtype == "float32" and net.chance(0.06):
            net.layers[name].update(LOSS_AS_IS, **net.maybe({"loss_scale": 0.5}))


def add_data(net: Net) -> None:
    """Says what data there is."""
    r, size = net.random, net.size()
    data: dict[str, Any]
    if net.chance(0.4):
        time = SpatialDim("time")
        data = {"dim_tags": [batch_dim, time, FeatureDim("in", size)]}
        if net.chance(0.15):
            data["dim_tags"] = [time, batch_dim, data["dim_tags"][-1]]
        net.extern_data["data"] = data
        net.shapes["data"] = Shape(feature=size)
        if net.chance(0.3):
            net.extern_data["mask"] = {"dim_tags": [batch_dim, time], "dtype": "bool"}
        if net.chance(0.3):
            net.extern_data["ids"] = {"dim_tags": [batch_dim, time], "sparse_dim": FeatureDim("vocab", 6)}
            net.shapes["data:ids"] = Shape(sparse=6, dtype="int32")
        if net.chance(0.2):
            net.extern_data["other"] = {"dim_tags": [batch_dim, SpatialDim("time2"), FeatureDim("in2", 6)]}
            net.shapes["data:other"] = Shape(time="time2", feature=6)
        if net.chance(0.3):
            net.extern_data["classes"] = {
                "dim_tags": [batch_dim, time],
                "sparse_dim": FeatureDim("classes_vocab", 9),
                "available_for_inference": False,
            }
        if net.chance(0.2):
            net.extern_data["reg"] = {
                "dim_tags": [batch_dim, time, FeatureDim("reg", 2)],
                "available_for_inference": False,
                "n": 2,
            }
    else:
        form = r.choice(["plain", "frames", "frames", "frames", "time-major", "image", "static", "vector", "no time"])
        data = {"dim": size}
        shape = Shape(feature=size)
        if form in ("frames", "time-major"):
            data["shape"] = (None, size)
        if form == "time-major":
            data.update(time_dim_axis=0, batch_dim_axis=1)
        if form == "image":
            k = r.choice([2, 8, 9])
            data["shape"] = (None, k, size)
            shape = Shape(static=(k,), feature=size)
        if form == "static":
            k = r.choice([5, 6])
            data["shape"] = (k, size)
            shape = Shape(time="static", feature=size)
        if form in ("vector", "no time"):
            data["shape"] = (size,)
            shape = Shape(time=None, feature=size)
        if form == "no time":
            data["time_dim_axis"] = None
        net.extern_data["data"] = data
        net.shapes["data"] = shape
        if net.chance(0.3):
            net.extern_data["ids"] = {"dim": 6, "sparse": True, **net.maybe({"shape": (None,)}, 0.5)}
            net.shapes["data:ids"] = Shape(time="time3", sparse=6, dtype="int32")
        if net.chance(0.2):
            net.extern_data["other"] = {"dim": 6, "shape": (None, 6)}
            net.shapes["data:other"] = Shape(time="time2", feature=6)
        if net.chance(0.3):
            net.extern_data["classes"] = {"dim": 9, "sparse": True, "available_for_inference": False}
        if net.chance(0.15):
            net.extern_data["reg"] = {"dim": 2, "shape": (None, 2), "available_for_inference": False, "n": 2}
    if net.chance(0.2):
        net.extern_data["labels"] = {"dim": 4, "sparse": True, "available_for_inference": False}
    if net.chance(0.25):
        size = net.size()
        net.extern_data["vec"] = {"dim": size, "shape": (size,)}
        net.shapes["data:vec"] = Shape(time=None, feature=size)


def make_network(seed: int) -> Net:
    """:return: a network that has to work"""
    random = Random(seed)
    net = Net(random, random.choice([None, None, 0, 1, 3, 5, 6, 8, 11, 12, 14, 16, 17, 18, 20, 21, 21, 21, 30]))
    net.train = net.chance(0.5)
    add_data(net)
    count = random.randint(2, 7)
    weights, functions = zip(*sorted(PRODUCTIONS, key=lambda rule: rule[1].__name__), strict=True)
    tries = 0
    while count and tries < 60:
        tries += 1
        if random.choices(functions, weights)[0](net):
            count -= 1
    add_losses(net)
    for options in net.extern_data.values():
        options.pop("n", None)
    last = [name for name, shape in net.shapes.items() if name in net.layers]
    net.layers["output"] = {"class": "copy", "from": last[-1] if last else "data"}
    for name, layer in net.layers.items():
        if name != "output":
            layer["is_output_layer"] = True
    return net
