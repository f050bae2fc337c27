"""
Random time steps: layers of all kinds of `feed_forward`, which see one frame, and whole sequences from outside.

As in `feed_forward`, the same seed gives the same network. Some of them have to be refused in a loop.
"""

from __future__ import annotations

from random import Random

from tests.fuzz.feed_forward import rules_of_axes, rules_of_parts, rules_of_values
from tests.fuzz.grammar import PRODUCTIONS, Net, Shape

__all__ = ["make_network", "rules_of_axes", "rules_of_parts", "rules_of_values"]

_NOT_IN_STEPS = ("recurrent", "masked", "flatten", "norms")  # they need data of the network around, or all frames


def make_network(seed: int) -> Net:
    """:return: a network with a loop"""
    random = Random(seed)
    net = Net(random, random.choice([None, 1, 6, 12, 18, 21, 22, 30]))
    size, encoder = net.size(), net.size()
    net.extern_data["data"] = {"dim": size, "shape": (None, size)}
    net.extern_data["other"] = {"dim": 5, "shape": (None, 5)}
    source = net.random.choice(["data", "data:other"])  # the frames of the loop, and those of another sequence
    net.layers["enc"] = {"class": "linear", "from": source, "n_out": encoder, "activation": "tanh"}
    net.layers["vec"] = {"class": "reduce", "from": "enc", "axis": "T", "mode": "mean"}
    step = Net(random, net.version)
    step.shapes["data:source"] = Shape(time=None, feature=size)
    step.shapes["base:vec"] = Shape(time=None, feature=encoder)
    if net.chance(0.6):
        step.shapes["base:enc"] = Shape(time="enc", feature=encoder)
    if net.chance(0.7):
        cell = {"class": "rnn_cell", "unit": random.choice(["LSTMBlock", "gru"]), "n_out": net.size()}
        step.layers["state"] = {**cell, "from": "data:source"}
        step.shapes["state"] = Shape(time=None, feature=step.layers["state"]["n_out"])
    _grow(step, random.randint(2, 7))
    vectors = [name for name, shape in step.shapes.items() if shape.is_vector]
    _look_back(step, [name for name in vectors if name in step.layers])
    step.layers["output"] = {"class": "copy", "from": vectors[-1]}
    for layer in step.layers.values():
        layer["is_output_layer"] = True
        layer.pop("batch_norm", None)  # which sees other frames
    net.layers["loop"] = {"class": "rec", "from": "data", "unit": step.layers}
    net.layers["output"] = {"class": "copy", "from": "loop"}
    return net


def _grow(step: Net, count: int) -> None:
    rules = sorted(PRODUCTIONS, key=lambda rule: rule[1].__name__)
    weights, functions = zip(*(rule for rule in rules if rule[1].__name__ not in _NOT_IN_STEPS), strict=True)
    for _ in range(60):
        if count and step.random.choices(functions, weights)[0](step):
            count -= 1


def _look_back(step: Net, vectors: list[str]) -> None:
    """Some layers get another one of the frame before."""
    if not vectors or any("reuse_params" in layer for layer in step.layers.values()):
        return
    for layer in step.layers.values():
        source = layer.get("from")
        is_vector = isinstance(source, str) and source in step.shapes and step.shapes[source].is_vector
        if layer["class"] == "linear" and is_vector and step.chance(0.35):
            layer["from"] = [source, f"prev:{step.random.choice(vectors)}"]
