"""What each option of the layer `choice` does."""

from __future__ import annotations

import numpy
import pytest
import tensorflow as tf

from returnn.tensor import Dim, batch_dim
from returnn.tf.util.data import SpatialDim
from returnn.util.errors import ConfigError
from tests.tf.layers.search.search_net import (
    EOS,
    EXTERN_DATA,
    NUM_LABELS,
    SearchNet,
    construct,
    decoder,
    inputs,
    labels,
)
from tests.tf.layers.search.test_search import FETCH, Model, assert_same, models, without_eos

LINEAR = {"class": "linear", "from": "s", "n_out": NUM_LABELS}


def hypotheses(beam=3, *, choice=None, fetch=FETCH, data=None, **options):
    net = SearchNet(decoder(choice={"beam_size": beam, **(choice or {})}, **options), fetch=fetch)
    data, lengths = inputs() if data is None else data
    return net.hypotheses(beam, data=(data, lengths)), models(net, data, lengths)


@pytest.mark.parametrize(
    ("input_type", "activation"), [("prob", "softmax"), ("log_prob", "log_softmax"), ("logits", None)]
)
def test_input_type(input_type, activation):
    wanted, _ = hypotheses()
    found, _ = hypotheses(
        choice={"input_type": input_type}, unit={"p": {**LINEAR, "activation": activation}}, fetch=("output", "scores")
    )
    for entry, want in zip(found, wanted, strict=True):
        assert_same(entry, want)


@pytest.mark.parametrize("search", [True, False])
def test_regression_takes_the_source_and_in_training_the_target(search):
    extern_data = {**EXTERN_DATA, "frames": {"dim": 2, "shape": (None, 2), "same_dim_tags_as": {"T": "data:T"}}}
    unit = {
        "x": {"class": "linear", "from": ["data:source", "prev:output"], "n_out": 2, "is_output_layer": True},
        "output": {
            "class": "choice", "from": "x", "input_type": "regression", "target": "frames", "beam_size": 1,
            "initial_output": 0,
        },
    }  # fmt: skip
    net_dict = {"output": {"class": "rec", "from": "data", "unit": unit}}
    extern_data["frames"].pop("same_dim_tags_as")
    net = SearchNet(net_dict, search=search, fetch=("output", "output/x"), extern_data=extern_data)
    data, lengths = inputs()
    frames = data[:, :, :2] + 1
    found = net.run(data=(data, lengths), frames=(frames, lengths))
    wanted = found["output/x"][0] if search else frames
    for b, n in enumerate(lengths):
        numpy.testing.assert_array_equal(found["output"][0][b, :n], wanted[b, :n])


def test_a_choice_of_values_has_the_score_0():
    unit = {
        "x": {"class": "linear", "from": ["data:source", "prev:output"], "n_out": 2},
        "output": {"class": "choice", "from": "x", "input_type": "regression", "beam_size": 1, "initial_output": 0},
        "scores": {"class": "choice_get_beam_scores", "from": "output", "is_output_layer": True},
    }
    net_dict = {
        "output": {"class": "rec", "from": "data", "unit": unit},
        "scores": {"class": "choice_get_beam_scores", "from": "output", "is_output_layer": True},
    }
    data, lengths = inputs()
    found = SearchNet(net_dict, fetch=("scores", "output/scores")).run(data=(data, lengths))
    numpy.testing.assert_array_equal(found["scores"][0], numpy.zeros(len(lengths)))
    numpy.testing.assert_array_equal(found["output/scores"][0], numpy.zeros(data.shape[:2]))


def test_prob_scale_scales_the_scores():
    for entry, model in zip(*hypotheses(choice={"prob_scale": 0.5}), strict=True):
        for sequence, score in entry:
            with_end = (*sequence, EOS) if len(sequence) < 5 else sequence
            assert score == pytest.approx(model.score(with_end) / 2, abs=1e-5)


def test_base_beam_score_scale_discounts_the_past():
    found, all_models = hypotheses(1, choice={"base_beam_score_scale": 0.5})
    for ((sequence, score),), model in zip(found, all_models, strict=True):
        greedy = model.greedy(5)
        assert sequence == without_eos(greedy)
        if len(greedy) == 5:
            parts = numpy.diff([model.score(greedy[:n]) for n in range(6)])
            assert score == pytest.approx(sum(p * 0.5 ** (4 - t) for t, p in enumerate(parts)), abs=1e-5)


def test_without_the_past_only_the_last_label_counts():
    found, all_models = hypotheses(3, choice={"base_beam_score_scale": 0.0}, max_seq_len=1, include_eos=True)
    for entry, model in zip(found, all_models, strict=True):
        assert_same(entry, model.all(1)[:3])
    found, _ = hypotheses(3, choice={"base_beam_score_scale": 0.0})
    assert all(numpy.isfinite(score) for entry in found for _, score in entry)


def test_random_sample_scale_draws_from_the_distribution():
    count = 2000
    options = {"random_sample_scale": 1.0, "base_beam_score_scale": 0.0}
    net = SearchNet(decoder(choice={"beam_size": 1, **options}, max_seq_len=1, include_eos=True), scale=1.0)
    data = numpy.zeros((count, 1, 3), "float32")
    found = net.run(data=(data, [1] * count))["output"][0][:, 0]
    log_probs, _ = Model(net.params(), data[0]).step((numpy.zeros(4), 0))
    frequencies = numpy.bincount(found, minlength=NUM_LABELS) / count
    numpy.testing.assert_allclose(frequencies, numpy.exp(log_probs), atol=4 * 0.5 / count**0.5)


def test_length_normalization_exponent():
    beam = 40
    options = {"length_normalization": True, "length_normalization_exponent": 0.5}
    found, all_models = hypotheses(beam, choice=options, max_seq_len=3)
    for entry, model in zip(found, all_models, strict=True):
        scored = [(x, score / len(x) ** 0.5) for x, score in model.all(3)]
        wanted = sorted(scored, key=lambda entry: -entry[1])
        assert_same(entry, [(without_eos(x), score * 3**0.5 / 4) for x, score in wanted])


def test_keep_beams_goes_on_with_the_best_label_of_each():
    found, all_models = hypotheses(NUM_LABELS, choice={"keep_beams": True}, include_eos=True)
    for entry, model in zip(found, all_models, strict=True):
        assert sorted(x[0] for x, _ in entry) == list(range(NUM_LABELS))
        for sequence, score in entry:
            assert score == pytest.approx(model.score(sequence), abs=1e-5)
            for t in range(1, len(sequence)):
                others = [model.score((*sequence[:t], label)) for label in range(NUM_LABELS)]
                assert numpy.argmax(others) == sequence[t]


@pytest.mark.parametrize("cheating", [True, "exclusive"])
@pytest.mark.parametrize("beam", [1, 4])
def test_cheating_keeps_the_target(cheating, beam):
    target = labels([(0, 2, 3, 2)])
    net = SearchNet(decoder(choice={"cheating": cheating, "beam_size": beam}), fetch=FETCH)
    data, lengths = inputs(n_batch=1)
    (entry,) = net.hypotheses(beam, data=(data, lengths), classes=target)
    (model,) = models(net, data, lengths)
    assert entry[-1][0] == (0, 2, 3, 2)
    assert entry[-1][1] == pytest.approx(model.score((0, 2, 3, 2)), abs=1e-5)
    assert [s for _, s in entry[:-1]] == sorted((s for _, s in entry[:-1]), reverse=True)
    if cheating == "exclusive":
        assert len({x for x, _ in entry}) == beam


def test_cheating_of_two_choices_in_a_step():
    cheating = {"class": "choice", "target": "classes", "cheating": True, "length_normalization": False}
    unit = {
        "first": {**cheating, "from": "p", "beam_size": 2, "is_output_layer": True},
        "first_emb": {"class": "linear", "from": "first", "n_out": 3},
        "q": {"class": "softmax", "from": ["s", "first_emb"], "n_out": NUM_LABELS},
    }
    net = SearchNet(
        decoder(unit=unit, choice={"from": "q", "cheating": True}), fetch=("output", "output/first"), scale=1.0
    )
    found = net.run(data=inputs())
    target, lengths = labels()
    for name in ("output", "output/first"):
        for b, n in enumerate(lengths):
            numpy.testing.assert_array_equal(found[name][0][3 * b + 2, :n], target[b, :n])


def test_custom_score_combine_gets_scores_and_flags():
    seen = {}

    def combine(*, scores_in, scores_base, end_flags, t, layer, prob_scale, **_other):
        seen.update(shapes=[scores_in.shape[1:].as_list(), scores_base.shape[1:].as_list()], layer=layer.name)
        seen.update(flags=end_flags.dtype.name, t=t.dtype.name)
        return scores_in * prob_scale + scores_base

    found, _ = hypotheses(choice={"custom_score_combine": combine})
    wanted, _ = hypotheses()
    for entry, want in zip(found, wanted, strict=True):
        assert_same(entry, want)
    assert seen == {"shapes": [[3, NUM_LABELS], [3, 1]], "layer": "output", "flags": "bool", "t": "int32"}


def test_explicit_search_sources_are_on_the_beam_of_the_choice():
    seen = []

    def combine(*, layer, scores_in, scores_base, **_other):
        seen.append(layer.explicit_search_sources[0].output.copy_as_batch_major().raw_tensor.shape.as_list())
        return scores_in + scores_base

    wanted, _ = hypotheses()
    for name, value in (("explicit_search_sources", ["prev:s"]), ("explicit_search_source", "prev:s")):
        found, _ = hypotheses(choice={name: value, "custom_score_combine": combine})
        for entry, want in zip(found, wanted, strict=True):
            assert_same(entry, want)
    assert seen == [[None, 4]] * 2  # batch and hypotheses are one axis for code of users


def test_custom_score_combine_sees_the_layer_as_code_of_users_sees_layers():
    """Two hypotheses that have the same labels count once, by the better one: they are known by a string."""
    shapes = []

    def spell(source, **_):
        return source(0) + tf.gather(["a", "b", "c", "d"], source(1))

    def combine(*, layer, scores_in, scores_base, batch_dim, base_beam_in, **_other):
        text, state = (x.output for x in layer.explicit_search_sources)
        shapes.append((layer.output.shape, layer.output.dim, text.shape, state.shape, layer.sources[0].output.shape))
        texts = tf.reshape(text.placeholder, (batch_dim, -1))[:, :base_beam_in]
        same = tf.linalg.band_part(tf.cast(tf.equal(texts[:, :, None], texts[:, None]), tf.int32), -1, 0)
        is_again = tf.reduce_sum(same, axis=-1) > 1
        return scores_in + tf.where(is_again[:, :, None], float("-inf"), scores_base)

    unit = {
        "text": {
            "class": "eval", "from": ["prev:text", "output"], "eval": spell, "initial_output": None,
            "out_type": {"shape": (), "dtype": "string"},
        },
    }  # fmt: skip
    choice = {"custom_score_combine": combine, "explicit_search_sources": ["prev:text", "prev:s"]}
    found, _ = hypotheses(choice=choice, unit=unit)
    wanted, _ = hypotheses()
    for entry, want in zip(found, wanted, strict=True):  # all have other labels, but for the first step
        assert_same(entry, want)
    assert shapes == [((), NUM_LABELS, (), (4,), (NUM_LABELS,))]


def two_sources(**options):
    unit = {
        "q": {"class": "softmax", "from": "s", "n_out": 3},
        "both": {
            "class": "choice", "from": ["p", "q"], "target": ["classes", "others"], "initial_output": 0,
            "length_normalization": False, **options,
        },
        "output": {"class": "copy", "from": "both/out_0", "initial_output": 0},
        "other": {"class": "copy", "from": "both/out_1", "is_output_layer": True},
    }  # fmt: skip
    return decoder(unit=unit)


TIME = SpatialDim("time of the targets")
OTHERS = {
    **EXTERN_DATA,
    "classes": {"dim_tags": [batch_dim, TIME], "sparse_dim": Dim(NUM_LABELS, name="labels")},
    "others": {"dim_tags": [batch_dim, TIME], "sparse_dim": Dim(3, name="other labels")},
}


@pytest.mark.parametrize("sizes", [None, [2, 1]])
def test_several_sources_are_combined(sizes):
    net_dict = two_sources(beam_size=4, source_beam_sizes=sizes)
    net = SearchNet(net_dict, fetch=("output", "output/other", "scores"), extern_data=OTHERS, scale=1.0)
    net_dict["output"]["max_seq_len"] = 1
    net_dict["output"]["include_eos"] = True
    net = SearchNet(net_dict, fetch=("output", "output/other", "scores"), extern_data=OTHERS, scale=1.0)
    data, lengths = inputs()
    found = net.run(data=(data, lengths))
    params = net.params()
    for b, model in enumerate(models(net, data, lengths)):
        log_probs, follow = model.step(model.start)
        logits = follow(0)[0] @ params["output/rec/q/W"] + params["output/rec/q/b"]
        others = logits - numpy.log(numpy.exp(logits).sum())
        kept = [numpy.argsort(-x)[: sizes[i] if sizes else 4] for i, x in enumerate((log_probs, others))]
        wanted = sorted(((log_probs[i] + others[j], i, j) for i in kept[0] for j in kept[1]), reverse=True)[:4]
        rows = slice(4 * b, 4 * b + len(wanted))
        numpy.testing.assert_allclose(found["scores"][0][rows], [score for score, _, _ in wanted], atol=1e-5)
        assert found["output"][0][rows, 0].tolist() == [i for _, i, _ in wanted]
        assert found["output/other"][0][rows, 0].tolist() == [j for _, _, j in wanted]


@pytest.mark.parametrize("options", [{"cheating": True}, {"cheating": "exclusive"}, {"search": False}])
def test_several_sources_follow_their_targets(options):
    values = {"classes": labels([(0, 2, 3)]), "others": labels([(1, 2, 0)])}
    data, lengths = inputs(n_batch=1)
    scores = []
    for choice in (options, {"cheating": True, "source_beam_sizes": [1, 1]}):
        net_dict = two_sources(beam_size=3, **choice)
        net = SearchNet(net_dict, fetch=("output", "output/other", "scores"), extern_data=OTHERS)
        found = net.run(data=(data, lengths), **values)
        last = 0 if "search" in choice else -1
        assert found["output"][0][last].tolist() == [0, 2, 3]
        assert found["output/other"][0][last].tolist() == [1, 2, 0]
        scores.append(found["scores"][0][last])
        if choice.get("cheating") == "exclusive":
            pairs = list(zip(found["output"][0].tolist(), found["output/other"][0].tolist(), strict=True))
            assert pairs.count(pairs[-1]) == 1
    assert scores[0] == pytest.approx(scores[1], abs=1e-5)


def test_without_search_the_sub_layers_are_the_targets():
    values = {"classes": labels([(0, 2, 3)]), "others": labels([(1, 2, 0)])}
    net = SearchNet(two_sources(beam_size=3), search=False, fetch=("output", "output/other"), extern_data=OTHERS)
    found = net.run(data=inputs(n_batch=1), **values)
    assert found["output"][0].tolist() == [[0, 2, 3]]
    assert found["output/other"][0].tolist() == [[1, 2, 0]]


def test_a_beam_wider_than_all_continuations_is_filled_up():
    unit = {
        "p": {"class": "softmax", "from": "s", "n_out": NUM_LABELS},
        "first": {"class": "choice", "from": "p", "target": "classes", "beam_size": 1, "length_normalization": False},
        "q": {"class": "linear", "from": "first", "n_out": NUM_LABELS, "activation": "log_softmax"},
        "output": {
            "class": "choice", "from": "q", "input_type": "log_prob", "target": "classes", "beam_size": 6,
            "length_normalization": False, "initial_output": 0,
        },
    }  # fmt: skip
    net = SearchNet(decoder(unit=unit, max_seq_len=1, include_eos=True), fetch=("output", "scores"))
    (entry,) = net.hypotheses(6, data=inputs(n_batch=1))
    assert sorted(x[0] for x, _ in entry[:NUM_LABELS]) == list(range(NUM_LABELS))
    assert [s for _, s in entry[NUM_LABELS:]] == [-numpy.inf] * 2


@pytest.mark.parametrize(
    ("sampling", "is_target"), [(True, False), ({"gold_mixin_prob": 1.0}, True), ({"gold_mixin_prob": 0.5}, False)]
)
def test_scheduled_sampling_in_training_alone(sampling, is_target):
    target = labels([[0, 1, 2, 3, 0, 1]] * 50)
    net_dict = decoder(choice={"scheduled_sampling": sampling})
    values = {"data": (numpy.zeros((50, 1, 3), "float32"), [1] * 50), "classes": target}
    found = {
        train: SearchNet(net_dict, search=False, train=train, scale=0.3).run(**values)["output"][0]
        for train in (True, False)
    }
    numpy.testing.assert_array_equal(found[False], target[0])
    agreement = (found[True] == target[0]).mean()
    keep = sampling.get("gold_mixin_prob", 0) if isinstance(sampling, dict) else 0
    assert (agreement == 1) == is_target
    assert agreement == pytest.approx(keep + (1 - keep) / NUM_LABELS, abs=0.12)


@pytest.mark.parametrize("sampling", [True, {"gold_mixin_prob": 0.5, "gold_mixin_axis": "B"}], ids=str)
def test_no_scheduled_sampling_of_dev_data_in_the_graph_of_the_training(sampling):
    target = labels([[0, 1, 2, 3, 0, 1]] * 20)
    values = {"data": (numpy.zeros((20, 1, 3), "float32"), [1] * 20), "classes": target}
    net = SearchNet(decoder(choice={"scheduled_sampling": sampling}), search=False, train=None)
    with net.graph.as_default():
        feed = net.feed(values)
    found = {train: net.session.run(net.fetches, {**feed, net.net.train_flag: train}) for train in (True, False)}
    assert (found[True]["output"][0] != target[0]).any()
    numpy.testing.assert_array_equal(found[False]["output"][0], target[0])


def test_scheduled_sampling_of_several_sources():
    values = {"classes": labels([[0, 1, 2, 3] * 2] * 40), "others": labels([[0, 1, 2, 0] * 2] * 40)}
    values["data"] = (numpy.zeros((40, 1, 3), "float32"), [1] * 40)
    net_dict = two_sources(beam_size=3, scheduled_sampling=True)
    net = SearchNet(net_dict, search=False, train=True, fetch=("output", "output/other"), extern_data=OTHERS, scale=0.3)
    found = net.run(**values)
    for name, key, count in (("output", "classes", NUM_LABELS), ("output/other", "others", 3)):
        assert set(numpy.unique(found[name][0])) == set(range(count))
        assert (found[name][0] == values[key][0]).mean() == pytest.approx(1 / count, abs=0.15)


def test_gold_mixin_axis_decides_for_all_labels_of_an_entry():
    target = labels([[0, 1, 2, 3, 0, 1]] * 40)
    unit = {"output": {
        "class": "choice", "from": "data:source", "target": "classes", "beam_size": 1, "input_type": "logits",
        "scheduled_sampling": {"gold_mixin_prob": 0.5, "gold_mixin_axis": "B"},
    }}  # fmt: skip
    net_dict = {
        "x": {"class": "eval", "from": "data:classes", "eval": "tf.one_hot(source(0) * 0, 4) * 50.", "out_type": {
            "dim": 4, "sparse": False, "dtype": "float32", "shape": (None, 4), "sparse_dim": None}},
        "output": {"class": "rec", "from": "x", "unit": unit},
    }  # fmt: skip
    found = SearchNet(net_dict, search=False, train=True).run(classes=target)["output"][0]
    rows = {tuple(row) for row in found.tolist()}
    assert rows == {(0, 1, 2, 3, 0, 1), (0,) * 6}


def test_search_in_training():
    data, lengths = inputs()
    found, _ = hypotheses()
    net_dict = {**decoder(choice={"search": True})}
    for name in ("scores", "best"):
        net_dict[name] = {key: value for key, value in net_dict[name].items() if key != "only_on_search"}
    net = SearchNet(net_dict, search=False, train=True, fetch=FETCH)
    for entry, want in zip(net.hypotheses(3, data=(data, lengths)), found, strict=True):
        assert_same(entry, want)


def test_gradient_of_the_scores_reaches_the_parameters():
    net_dict = decoder(choice={"search": True})
    net_dict["loss"] = {"class": "copy", "from": "output", "loss": "search_score", "is_output_layer": True}
    net = SearchNet(net_dict, search=False, train=True, with_grads=True)
    grads = net.run(net.grads, data=inputs())
    assert {"output/rec/p/W", "output/rec/s/W", "output/rec/emb/W"} <= set(grads)
    assert all(numpy.isfinite(grad).all() and abs(grad).max() > 0 for grad in grads.values())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input_type": "probs"}, r"there is no input_type 'probs'.\n.*'prob'"),
        ({"cheating": "exclusiv"}, "option 'cheating': 'exclusiv'. Possible: False, True, 'exclusive'"),
        ({"beam_size": 0}, "option 'beam_size': expected a number above 0, got 0"),
        ({"add_to_beam_scores": False}, "option 'add_to_beam_scores': False is only possible without search"),
        ({"keep_beams": True, "cheating": True}, "the options 'keep_beams' and 'cheating' exclude each other"),
        ({"scheduled_sampling": 0.5}, r"option 'scheduled_sampling'.* 0.5"),
        ({"scheduled_sampling": {"gold_prob": 0.5}}, "there is no option 'gold_prob'.\n.*'gold_mixin_prob'"),
        ({"cheating": True, "target": None}, "the option 'target' is required, with 'cheating': True"),
        ({"source_beam_sizes": [1, 2]}, r"option 'source_beam_sizes': \[1, 2\], but there is 1 source"),
        ({"target": ["classes", "classes"]}, r"option 'target': \['classes', 'classes'\], but there is 1 source"),
        ({"beam_sise": 3}, r"there is no option 'beam_sise'.\n.*'beam_size'"),
        (
            {"custom_score_combine": lambda **_: tf.zeros([1])},
            "the function gave .*\n.*Expected float32 with the shape",
        ),
        (
            {"custom_score_combine": lambda x: x},
            r"'custom_score_combine': '<lambda>': .*\n  Its arguments.* scores_in,",
        ),
        ({"from": []}, "option 'from': a search needs a source"),
        ({"explicit_search_sources": "prev:s"}, "'explicit_search_sources': expected a list or dict of .*'prev:s'"),
        ({"source_beam_sizes": [0]}, r"option 'source_beam_sizes': each has to be at least 1, not \[0\]"),
        ({"scheduled_sampling": {"gold_mixin_prob": 2}}, "'gold_mixin_prob': expected 0 to 1, got 2"),
        ({"initial_output": "apply(0)"}, "option 'initial_output': 'apply\\(0\\)': for zeros, it chooses nothing"),
        ({"beam_size": True}, "option 'beam_size': expected a number above 0, got True"),
        ({"from": "emb_sum"}, "has no feature dim with the scores of the labels"),
    ],
)
def test_errors(options, message):
    unit = {"emb_sum": {"class": "reduce", "mode": "sum", "axis": "F", "from": "s"}}
    with tf.Graph().as_default(), pytest.raises(ConfigError, match=message) as info:
        construct(decoder(choice=options, unit=unit if options.get("from") else {}))
    assert "layer 'output/output'" in str(info.value)
    assert len(str(info.value).splitlines()) <= 5


def test_each_source_needs_a_target():
    net_dict = two_sources(beam_size=3, target="classes")
    with tf.Graph().as_default(), pytest.raises(ConfigError, match=r"option 'target': .*, but there are 2 sources"):
        construct(net_dict, extern_data=OTHERS)


@pytest.mark.parametrize("option", ["prob_scale", "base_beam_score_scale", "length_normalization_exponent"])
def test_none_is_the_default_of_numbers(option):
    for found, wanted in zip(*(hypotheses(choice=x)[0] for x in ({option: None}, {})), strict=True):
        assert_same(found, wanted)


def test_search_outside_of_a_loop_is_an_error():
    net_dict = {"output": {"class": "choice", "from": "data", "target": "classes", "beam_size": 2}}
    with tf.Graph().as_default(), pytest.raises(ConfigError, match="can only search inside of a loop"):
        construct(net_dict)
