"""Edit distances frame by frame."""

from __future__ import annotations

import numpy
import pytest

from returnn.util.errors import ConfigError
from tests.tf.layers.rec.recurrent_net import RecurrentNet, sequences, valid
from tests.tf.layers.search.search_net import EXTERN_DATA, SearchNet, decoder, inputs


def table_net(**options):
    labels = {"class": "reduce", "mode": "argmax", "axis": "F", "from": "data", "is_output_layer": True}
    table = {"class": "edit_distance_table", "from": "data:source", "target": "layer:base:labels"}
    return {
        "labels": labels,
        "output": {"class": "rec", "from": "labels", "unit": {"output": table}, **options},
    }


def test_moving_the_table_out_of_the_loop_changes_nothing():
    data, lengths = sequences()
    inside, outside = (
        RecurrentNet(table_net(optimize_move_layers_out=move)).run(data, lengths).output for move in (False, True)
    )
    numpy.testing.assert_array_equal(valid(inside, lengths)[:, 0], valid(outside, lengths)[:, 0])


def test_the_same_labels_have_no_distance():
    data, lengths = sequences()
    rows = RecurrentNet(table_net()).run(data, lengths).output
    for b, length in enumerate(lengths):
        numpy.testing.assert_array_equal(numpy.diagonal(rows[b, :length, 1 : length + 1]), 0)


def test_a_target_is_required():
    net_dict = table_net()
    del net_dict["output"]["unit"]["output"]["target"]
    with pytest.raises(ConfigError, match="the option 'target' is required"):
        RecurrentNet(net_dict)


def table_by_hand(source, target, blank):
    """:return: rows after each label of the source"""
    row, rows = list(range(len(target) + 1)), []
    for label in source:
        if label != blank:
            new = [row[0] + 1]
            for u, other in enumerate(target):
                new.append(min(new[u] + 1, row[u + 1] + 1, row[u] + (label != other)))
            row = new
        rows.append(row)
    return rows


def completions_by_hand(row, target, num_labels, blank):
    """:return: for each label, the least distance to a beginning of the target if it comes next"""
    rest = range(len(target))
    values = [min([row[u] for u in rest if target[u] == label] + [min(row) + 1]) for label in range(num_labels)]
    return [min(row) if label == blank else value for label, value in enumerate(values)]


@pytest.mark.parametrize("blank", [None, 0, 4])
@pytest.mark.parametrize("in_loop", [True, False])
def test_tables_and_completions_are_those_by_hand(blank, in_loop):
    rnd = numpy.random.RandomState(3)
    source, target = rnd.randint(0, 5, size=(3, 7)), rnd.randint(0, 4, size=(3, 5))
    lengths, target_lengths = numpy.array([7, 5, 4]), numpy.array([5, 3, 2])
    options = {"target": "layer:base:data:classes" if in_loop else "classes"}
    options |= {} if blank is None else {"blank_idx": blank}
    table = {"class": "edit_distance_table", "from": "data:source" if in_loop else "data", **options}
    layers = {
        "table": {**table, "is_output_layer": True},
        "output": {"class": "optimal_completions", "from": "table", **options},
    }
    net_dict = {"output": {"class": "rec", "from": "data", "unit": layers}} if in_loop else layers
    names = ("output/table" if in_loop else "table", "output")
    extern_data = {**EXTERN_DATA, "data": {"dim": 5, "sparse": True, "shape": (None,)}}
    net = SearchNet(net_dict, search=False, fetch=names, extern_data=extern_data)
    found = net.run(data=(source, lengths), classes=(target, target_lengths))
    rows, best = (numpy.moveaxis(x, x.shape.index(7), 1) for x in (found[name][0] for name in names))
    for b, (n, m) in enumerate(zip(lengths, target_lengths, strict=True)):
        wanted = table_by_hand(source[b, :n], target[b, :m], blank)
        numpy.testing.assert_array_equal(rows[b, :n, : m + 1], wanted)
        wanted = [completions_by_hand(row, target[b, :m], best.shape[-1], blank) for row in wanted]
        numpy.testing.assert_array_equal(best[b, :n], wanted)
    assert best.shape[-1] == (5 if blank == 4 else 4)


def test_optimal_completions_as_targets_of_a_searching_net():
    soft = {"class": "eval", "eval": "tf.nn.softmax(-tf.cast(source(0), tf.float32))", "from": "best"}
    target = {"target": "layer:base:data:classes"}
    prob = {"class": "softmax", "from": "s", "n_out": 4, "target": "layer:soft", "loss": "ce", "is_output_layer": True}
    unit = {
        "p": prob,
        "table": {"class": "edit_distance_table", "from": "output", **target},
        "best": {"class": "optimal_completions", "from": "prev:table", **target},
        "soft": {**soft, "out_type": {"dtype": "float32"}, "is_output_layer": True},
    }
    net_dict = decoder(choice={"search": True}, unit=unit)
    net = SearchNet(net_dict, fetch=("output/p", "output/soft"), search=False, train=True, with_grads=True)
    loss = net.run(net.losses["output/p"], data=inputs())
    (prob, (lengths,)), (soft, _) = net.run(data=inputs()).values()
    soft = soft.transpose(0, 2, 1) if soft.shape[-1] != 4 else soft  # axes in no order
    expected = [-(t[:n] * numpy.log(p[:n])).sum() for p, t, n in zip(prob, soft, lengths, strict=True)]
    numpy.testing.assert_allclose(loss, sum(expected), rtol=1e-5)
    assert any(name.endswith("p/W") for name in net.grads)
