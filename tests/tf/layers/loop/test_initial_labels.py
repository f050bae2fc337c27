"""An initial output that is looked up in weights has to be a label; one that is only compared can be any number."""

import numpy
import pytest

from returnn.util.errors import ConfigError
from tests.tf.layers.search.search_net import NUM_LABELS, SearchNet, construct, decoder, inputs, tf

LOOKS_UP = {
    "linear": {"class": "linear", "from": "prev:output", "n_out": 3, "activation": None},
    "rnn_cell": {"class": "rnn_cell", "unit": "gru", "from": "prev:output", "n_out": 3},
    "rec": {"class": "rec", "unit": "nativelstm2", "from": "prev:output", "n_out": 3},
    "self_attention": {
        "class": "self_attention", "from": "prev:output", "n_out": 3, "num_heads": 1, "total_key_dim": 2,
        "attention_left_only": True,
    },
}  # fmt: skip
IS_FIRST = {"class": "compare", "from": "prev:output", "value": -1}


@pytest.mark.parametrize("search", [True, False])
@pytest.mark.parametrize("value", [-1, NUM_LABELS])
@pytest.mark.parametrize("emb", LOOKS_UP)
def test_no_label_is_an_error(emb, value, search):
    loss = {"class": "softmax", "from": "s", "n_out": NUM_LABELS, "loss": "ce", "target": "classes"}
    net_dict = decoder(choice={"initial_output": value}, unit={"emb": LOOKS_UP[emb], "p": loss})
    message = f"option 'initial_output': {value} is no label of .*, as 'output/emb' needs it.\n  Possible: 0 to 3."
    with tf.Graph().as_default(), pytest.raises(ConfigError, match=message) as info:
        construct(net_dict, search=search)
    assert str(info.value).startswith("layer 'output/output' (class 'choice'):")


def test_any_number_can_be_compared():
    dense = {"class": "cast", "dtype": "float32", "from": "is_first"}
    emb = {"class": "expand_dims", "axis": "F", "dim": 3, "from": "number"}
    net_dict = decoder(choice={"initial_output": -1}, unit={"is_first": IS_FIRST, "number": dense, "emb": emb})
    by_number = {"class": "compare", "from": ":i", "value": 0}
    wanted = decoder(unit={"is_first": by_number, "number": dense, "emb": emb})
    data = inputs()
    found = [SearchNet(net, fetch=("output", "scores")).run(data=data) for net in (net_dict, wanted)]
    for name, (value, _) in found[0].items():
        numpy.testing.assert_allclose(value, found[1][name][0], rtol=1e-5)
