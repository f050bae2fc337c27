"""Sums over frames."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

from returnn.util.errors import ConfigError
from tests.tf.layers.layer_net import LENGTHS, LayerNet, batch_of

TEXT = {
    "class": "eval",
    "from": "data:ids",
    "eval": "tf.strings.as_string(source(0))",
    "out_type": {"dtype": "string", "sparse": False, "sparse_dim": None, "dim": None},
}


def loop(layer: dict[str, Any], **options: Any) -> dict[str, Any]:
    unit = {"sum": {"class": "cumsum", **layer}, "output": {"class": "copy", "from": "sum"}}
    return {"text": TEXT, "x": {"class": "rec", "from": "text", "unit": unit, **options}}


@pytest.mark.parametrize("move", [True, False])
@pytest.mark.parametrize("summand", [None, " "])
def test_texts_are_joined_in_a_loop(summand, move):
    layer = {"from": "data:source", **({} if summand is None else {"additional_left_summand_per_element": summand})}
    net = LayerNet(loop(layer, optimize_move_layers_out=move), fetch=("output",))
    with net.graph.as_default():
        net.fetches = {"x": net.net.get_layer("x").output.copy_as_batch_major().raw_tensor}
    batch = batch_of(padding={"float32": 0.0, "int32": 0})
    found = net.run(batch)["x"]
    for row, labels, length in zip(found, batch["ids"], LENGTHS, strict=True):
        texts = [(summand or "") + str(label) for label in labels]
        numpy.testing.assert_array_equal(
            row[:length], [b"".join(map(str.encode, texts[: t + 1])) for t in range(length)]
        )


@pytest.mark.parametrize(
    ("net_dict", "message"),
    [
        ({"text": TEXT, "x": {"class": "cumsum", "from": "text"}}, "can be joined in a loop alone, frame by frame"),
        (
            {"x": {"class": "cumsum", "from": "data", "additional_left_summand_per_element": " "}},
            "option 'additional_left_summand_per_element': expected a number",
        ),
        (loop({"from": "data:source", "additional_left_summand_per_element": 1}), "expected a text"),
    ],
    ids=["no loop", "text to numbers", "number to texts"],
)
def test_what_cannot_be_joined(net_dict, message):
    with pytest.raises(ConfigError, match=message):
        LayerNet(net_dict)
