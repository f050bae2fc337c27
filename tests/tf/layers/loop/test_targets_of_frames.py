"""A loop over a source has one target for each frame, also if the target has a time dim of its own."""

import numpy
import pytest

from returnn.config import Config
from returnn.tf.network import TFNetwork
from returnn.tf.util.data import SpatialDim
from tests.tf.layers.rec.recurrent_net import drawn, tf, tf1
from tests.tf.layers.search.search_net import EXTERN_DATA, SearchNet, inputs, labels

NUM_LABELS = 6
LABELS = numpy.array([[1, 5, 2, 0], [3, 3, 0, 0]], "int32")
LENGTHS = numpy.array([4, 2], "int32")
UNIT = {
    "label": {"class": "linear", "activation": None, "n_out": 3, "from": "prev:output"},
    "s": {"class": "linear", "activation": "tanh", "n_out": 3, "from": ["data:source", "label", "prev:s"]},
    "prob": {"class": "softmax", "from": "s", "target": "classes", "loss": "ce"},
    "output": {"class": "choice", "from": "prob", "target": "classes", "beam_size": 3, "initial_output": 0},
}


def run(*, lengths=LENGTHS, shared_dim=False, **options):
    """:return: loss, and the output [B, T]"""
    time_dim = {"same_dim_tags_as": {"t": SpatialDim("time")}} if shared_dim else {}
    extern_data = {"data": {"dim": 2, **time_dim}, "classes": {"dim": NUM_LABELS, "sparse": True, **time_dim}}
    net_dict = {"output": {"class": "rec", "from": "data", "target": "classes", "unit": UNIT, **options}}
    with tf.Graph().as_default(), tf1.Session() as session:
        net = TFNetwork(config=Config({"extern_data": extern_data, "behavior_version": 21}), train_flag=True)
        net.construct_from_dict(net_dict)
        loss = net.get_total_loss()
        session.run([p.assign(drawn(p.name, p.shape.as_list())) for p in net.get_params_list()])
        data, classes = (net.extern_data.data[key] for key in ("data", "classes"))
        feed = {
            data.placeholder: drawn("data", (2, 4, 2)),
            data.get_sequence_lengths(): LENGTHS,
            classes.placeholder: LABELS[:, : max(lengths)],
            classes.get_sequence_lengths(): lengths,
            data.batch.dim: 2,
        }
        output = net.get_layer("output").output.copy_as_batch_major().placeholder
        checks = tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)
        return session.run([loss, output, checks], feed)[:2]


@pytest.mark.parametrize("direction", [1, -1])
@pytest.mark.parametrize("optimize", [True, False])
def test_own_time_dim_is_shared_time_dim(optimize, direction):
    options = {"optimize_move_layers_out": optimize, "direction": direction}
    loss, output = run(**options)
    expected, _ = run(shared_dim=True, **options)
    numpy.testing.assert_allclose(loss, expected, rtol=1e-6)
    for wanted, found, length in zip(LABELS, output, LENGTHS, strict=True):
        numpy.testing.assert_array_equal(found[:length], wanted[:length])


def test_target_of_other_length_is_an_error():
    with pytest.raises(tf.errors.InvalidArgumentError, match="needs as many labels as the source has frames"):
        run(lengths=numpy.array([4, 3], "int32"))


@pytest.mark.parametrize("depends_on_past", [False, True])
def test_target_is_a_layer_of_the_time_step(depends_on_past):
    prob = {"class": "softmax", "from": "s", "n_out": 4, "target": "layer:soft", "loss": "ce", "is_output_layer": True}
    past = ["prev:prob"] if depends_on_past else []
    unit = {
        "s": {"class": "linear", "activation": "tanh", "n_out": 3, "from": ["data:source", "prev:soft"]},
        "soft": {"class": "linear", "activation": "softmax", "n_out": 4, "from": "s", "is_output_layer": True},
        "prob": {**prob, "from": ["s", *past]},
        "output": {"class": "copy", "from": "soft"},
    }
    net = SearchNet(
        {"output": {"class": "rec", "from": "data", "unit": unit}}, fetch=("output/prob", "output/soft"), search=False
    )
    data = inputs()
    loss = net.run(net.losses["output/prob"], data=data)
    (prob, _), (soft, _) = net.run(data=data).values()
    expected = [-(t[:n] * numpy.log(p[:n])).sum() for p, t, n in zip(prob, soft, data[1], strict=True)]
    numpy.testing.assert_allclose(loss, sum(expected), rtol=1e-5)


def losses_of_two_targets(*, shared_dim, **options):
    same = {"same_dim_tags_as": {"t": SpatialDim("labels")}} if shared_dim else {}
    sparse = {"sparse": True, "shape": (None,), **same}
    extern_data = {"classes": {"dim": 4, **sparse}, "others": {"dim": 3, **sparse}}
    emb = {"class": "linear", "activation": None, "n_out": 3}
    unit = {
        "emb": {**emb, "from": "prev:both/out_0"},
        "emb2": {**emb, "from": "prev:both/out_1"},
        "p": {"class": "softmax", "from": ["emb", "emb2"], "target": "classes", "loss": "ce"},
        "q": {"class": "softmax", "from": ["emb", "emb2"], "target": "others", "loss": "ce"},
        "both": {
            "class": "choice", "from": ["p", "q"], "target": ["classes", "others"], "beam_size": 2, "initial_output": 0,
        },
        "output": {"class": "copy", "from": "both/out_0"},
    }  # fmt: skip
    net_dict = {"output": {"class": "rec", "from": [], "target": "classes", "unit": unit, **options}}
    net = SearchNet(net_dict, extern_data={**EXTERN_DATA, **extern_data}, search=False)
    classes, lengths = labels()
    return net.run(net.losses, classes=(classes, lengths), others=(classes % 3, lengths))


@pytest.mark.parametrize("optimize", [True, False])
def test_loop_over_one_of_two_targets(optimize):
    found = losses_of_two_targets(shared_dim=False, optimize_move_layers_out=optimize)
    wanted = losses_of_two_targets(shared_dim=True, optimize_move_layers_out=optimize)
    assert set(found) == {"output/p", "output/q"}
    for name, loss in wanted.items():
        numpy.testing.assert_allclose(found[name], loss, rtol=1e-5)
