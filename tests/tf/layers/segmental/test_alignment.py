"""Alignments in layers, against an enumeration of all label sequences. Frames beyond the ends of sequences hold NaN."""

from __future__ import annotations

import itertools

import numpy
import pytest
import tensorflow as tf

from returnn.util.errors import ConfigError
from tests.tf.layers.search.search_net import construct

tf1 = tf.compat.v1
NUM_CLASSES = 3
CTC = {"class": "fast_bw", "from": "data", "align_target": "ctc", "align_target_key": "labels"}
STAIRCASE = {"class": "fast_bw", "from": "data", "align_target": "staircase", "staircase_seq_len_source": "data:steps"}
FORCED = {"class": "forced_align", "from": "data", "align_target": "data:labels", "topology": "ctc"}
BLANK_FIRST = {"blank_idx": 0, "blank_included": True}


def extern_data(*, time_major=False):
    order = {"time_dim_axis": 0, "batch_dim_axis": 1} if time_major else {}
    return {
        "data": {"dim": NUM_CLASSES, "shape": (None, NUM_CLASSES), **order},
        "labels": {"dim": NUM_CLASSES, "sparse": True, "shape": (None,), **order},
        "labels_without_blank": {"dim": NUM_CLASSES - 1, "sparse": True, "shape": (None,), **order},
        "steps": {"dim": 1, "shape": (None, 1), **order},
    }


def padded(sequences, value, *, time_major):
    lengths = numpy.array([len(x) for x in sequences], "int32")
    shape = (len(sequences), max(lengths), *numpy.shape(sequences[0])[1:])
    out = numpy.full(shape, value, numpy.asarray(sequences[0]).dtype)
    for row, x in zip(out, sequences, strict=True):
        row[: len(x)] = x
    return (out.swapaxes(0, 1) if time_major else out), lengths


def labels_of(path, blank, *, label_loop):
    merged = [label for label, _ in itertools.groupby(path)] if label_loop else path
    return [label for label in merged if label != blank]


def paths_by_hand(log_probs, is_allowed):
    """:return: posteriors (T, F); log of the sum over all paths; log of the best one, -inf if there is none"""
    paths = [path for path in itertools.product(range(NUM_CLASSES), repeat=len(log_probs)) if is_allowed(list(path))]
    scores = numpy.array([sum(log_probs[t, k] for t, k in enumerate(path)) for path in paths])
    soft = numpy.zeros(log_probs.shape)
    for path, score in zip(paths, scores, strict=True):
        soft[numpy.arange(len(path)), path] += numpy.exp(score)
    total = numpy.log(soft[0].sum()) if paths else -numpy.inf
    return (soft / soft[0].sum() if paths else soft), total, max(scores, default=-numpy.inf)


class Case:
    """Random sequences, with labels for them."""

    def __init__(self, seed, *, blank, input_type, time_major):
        random = numpy.random.RandomState(seed)
        scores = [random.normal(size=(n, NUM_CLASSES)) for n in (4, 2, 3)]
        self.log_probs = [x - numpy.log(numpy.exp(x).sum(-1, keepdims=True)) for x in scores]
        others = [label for label in range(NUM_CLASSES) if label != blank]
        self.labels = [random.choice(others, size=n).astype("int32") for n in (2, 0, 3)]
        self.steps = [3, 1, 2]
        given = [(numpy.exp(x) if input_type == "prob" else x).astype("float32") for x in self.log_probs]
        labels = padded(self.labels, 99, time_major=time_major)
        self.values = {
            "data": padded(given, numpy.nan, time_major=time_major),
            "labels": labels,
            "labels_without_blank": labels,
            "steps": padded([numpy.zeros((n, 1), "float32") for n in self.steps], 0, time_major=time_major),
        }


def run(layer, case, *, time_major, sub_layers=()):
    """:return: output with the batch first, then time; negative log probabilities"""
    copies = {"output": {"class": "copy", "from": "align"}}
    copies |= {name: {"class": "copy", "from": f"align/{name}", "is_output_layer": True} for name in sub_layers}
    with tf.Graph().as_default(), tf1.Session() as session:
        data = extern_data(time_major=time_major)
        net = construct({"align": layer, **copies}, search=False, extern_data=data)
        outputs = {name: net.get_layer(name).output.copy_as_batch_major() for name in copies}
        feed = {net.extern_data.get_batch_info().dim: len(case.labels)}
        for key, (value, lengths) in case.values.items():
            feed[net.extern_data.data[key].raw_tensor] = value
            feed[net.extern_data.data[key].get_time_dim_tag().dyn_size] = lengths
        raw = {name: out.raw_tensor for name, out in outputs.items()}
        found, loss = session.run([raw, net.get_layer("align").output_loss.raw_tensor], feed_dict=feed)
    out = numpy.moveaxis(found["output"], outputs["output"].time_dim_axis, 1)
    return out, loss, {x: found[x] for x in sub_layers}


SOFT = {
    "ctc": (CTC, 2),
    "ctc, blank first": ({**CTC, "ctc_opts": {"blank_idx": 0}}, 0),
    "ctc, blank from the end": ({**CTC, "ctc_opts": {"blank_idx": -2}}, 1),
    "labels of one frame": ({**CTC, "ctc_opts": {"label_loop": False}}, 2),
    "scaled": ({**CTC, "am_scale": 0.3}, 2),
    "least probability": ({**CTC, "min_prob": 0.3}, 2),
    "staircase": (STAIRCASE, None),
}


@pytest.mark.parametrize("name", SOFT)
@pytest.mark.parametrize("input_type", ["prob", "log_prob"])
@pytest.mark.parametrize("time_major", [False, True])
def test_probabilities_are_those_over_all_paths(name, input_type, time_major):
    layer, blank = SOFT[name]
    case = Case(len(name), blank=blank, input_type=input_type, time_major=time_major)
    found, loss, _ = run({**layer, "input_type": input_type}, case, time_major=time_major)
    label_loop = layer.get("ctc_opts", {}).get("label_loop", True)
    for b, log_probs in enumerate(case.log_probs):
        wanted, steps = case.labels[b].tolist(), case.steps[b]

        def is_allowed(path, wanted=wanted, steps=steps):
            if blank is None:
                return sorted(path) == path and sorted(set(path)) == list(range(steps))
            return labels_of(path, blank, label_loop=label_loop) == wanted

        scores = numpy.maximum(log_probs, numpy.log(layer.get("min_prob", 1e-9))) * layer.get("am_scale", 1.0)
        soft, total, _ = paths_by_hand(scores, is_allowed)
        numpy.testing.assert_allclose(found[b, : len(scores)], soft, atol=1e-5)
        assert loss[b] == pytest.approx(-total, rel=1e-5)


HARD = {
    "ctc": ({**FORCED, "align_target": "data:labels_without_blank"}, 2, True),
    "rna": ({**FORCED, "align_target": "data:labels_without_blank", "topology": "rna"}, 2, False),
    "blank first": ({**FORCED, **BLANK_FIRST}, 0, True),
}


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("input_type", ["prob", "log_prob"])
@pytest.mark.parametrize("time_major", [False, True])
def test_the_best_path_is_that_of_all(name, input_type, time_major):
    layer, blank, label_loop = HARD[name]
    case = Case(len(name), blank=blank, input_type=input_type, time_major=time_major)
    found, loss, more = run({**layer, "input_type": input_type}, case, time_major=time_major, sub_layers=["scores"])
    for b, log_probs in enumerate(case.log_probs):
        wanted = case.labels[b].tolist()
        _, _, best = paths_by_hand(log_probs, lambda p, w=wanted: labels_of(p, blank, label_loop=label_loop) == w)
        assert loss[b] == pytest.approx(-best, rel=1e-5)
        assert more["scores"][b] == pytest.approx(best, rel=1e-5)
        if numpy.isfinite(best):
            path = found[b, : len(log_probs)].tolist()
            assert labels_of(path, blank, label_loop=label_loop) == wanted
            assert sum(log_probs[t, k] for t, k in enumerate(path)) == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ({**CTC, "ctc_opts": {"blank_idx": 7}}, "option 'blank_idx': 7 of 3 classes.\n  Possible: 0 to 2, or -1 to -3"),
        ({**CTC, "ctc_opts": {"blank_idx": "x"}}, "option 'blank_idx' has to be an integer, not 'x'"),
        ({**CTC, "ctc_opts": {"label_loop": "x"}}, "option 'label_loop' has to be True or False, not 'x'"),
        ({**CTC, "min_prob": -1.0}, "option 'min_prob': expected at least 0, got -1.0"),
        ({**CTC, "align_target_key": "data"}, r"option 'align_target_key': expected labels, \[B, S\] and sparse, got"),
        ({**FORCED, "input_type": "prob"}, "the source has 3 classes, but the labels with blank are 4"),
        ({**FORCED, "input_type": "prob", "align_target": "data"}, "option 'align_target': expected labels"),
        ({**FORCED, **BLANK_FIRST, "input_type": "prob", "blank_idx": -4}, "option 'blank_idx': -4 of 3 classes"),
    ],
)
def test_errors(layer, message):
    case = Case(1, blank=2, input_type="prob", time_major=False)
    with pytest.raises(ConfigError, match=f"layer 'align' .*{message}"):
        run(layer, case, time_major=False)
