"""Steps that do not fit into memory are done in parts: the same parameters and scores; or an error says why not."""

from __future__ import annotations

import re

import pytest

from returnn.datasets.core.registry import init_dataset
from returnn.log import log
from returnn.tf.engine import Engine
from returnn.util.errors import UserError
from returnn.util.system.warn_once import forget_shown
from tests.tf.engine import small_config

ALL = 10**6  # frames of a batch, with padding, for which memory is enough


def network(limit, **hidden):
    return {
        "limited": {"class": "eval", "from": "data", "eval": small_config.limited(limit)},
        "input": {"class": "reinterpret_data", "from": "data:classes", "size_base": "data"},
        "embedding": {"class": "linear", "activation": None, "n_out": 3, "from": "input", "L2": 0.01},
        "hidden": {
            "class": "rec", "unit": "lstm", "n_out": 3, "from": ["limited", "embedding"], "L2": 0.01, **hidden,
        },
        "output": {"class": "softmax", "from": "hidden", "loss": "ce", "target": "classes"},
        "mean": {
            "class": "softmax", "from": "hidden", "loss": "ce", "target": "classes", "loss_scale": 0.5,
            "loss_opts": {"use_normalized_loss": True},
        },
    }  # fmt: skip


def train(folder, net, **options):
    """:return: parameters, and scores of the epoch"""
    folder.mkdir()
    config = small_config.config(
        folder,
        network=net,
        **{"max_seqs": 7, "batch_size": ALL, "accum_grad_multiple_step": 2, "num_epochs": 1, **options},
    )
    data = {"class": "Task12AXDataset", "num_seqs": 20, "fixed_random_seed": 1}
    engine = Engine(config)
    engine.init_train_from_config(config, train_data=init_dataset(data))
    engine.train()
    scores = engine.learning_rate_control.get_epoch_error_dict(1)
    engine.finalize()
    return small_config.parameters(folder / "net.001"), {k: v for k, v in scores.items() if not k.startswith(":")}


def test_sequences_without_an_alignment_are_counted_in_all_parts(tmp_path, capsys):
    said = []
    for limit in (ALL, 300):
        net = {
            "limited": {"class": "eval", "from": "data", "eval": small_config.limited(limit)},
            "output": {"class": "softmax", "from": "limited", "n_out": 3},
            "align": {
                "class": "forced_align", "from": "output", "input_type": "prob", "topology": "ctc",
                "align_target": "data:classes",
            },
            "frames": {"class": "softmax", "from": "limited", "n_out": 3, "loss": "ce", "target": "layer:align"},
        }  # fmt: skip
        forget_shown()
        log.initialize(verbosity=[3])
        train(tmp_path / str(limit), net, optimizer={"class": "sgd"}, learning_rate=0.0)
        out = "".join(capsys.readouterr())
        assert ("out of memory, done in" in out) == (limit == 300)
        said.append(re.findall(r"\d+ of 20 sequences without an alignment in layer 'align'", out))
    assert len(said[0]) == 1
    assert said[0] == said[1]


def test_parameters_and_scores_are_the_same(tmp_path, capsys):
    options = {"optimizer": {"class": "sgd"}, "learning_rate": 0.01, "gradient_clip_global_norm": 3.0}
    whole, scores = train(tmp_path / "whole", network(ALL), **options)
    log.initialize(verbosity=[3])
    parts, scores_of_parts = train(tmp_path / "parts", network(300), **options)
    assert set(re.findall(r"out of memory, done in (\d) parts", "".join(capsys.readouterr()))) & {"2", "4"}
    assert scores_of_parts == pytest.approx(scores, rel=1e-5)
    assert set(parts) == set(whole)
    for name, value in whole.items():
        assert parts[name] == pytest.approx(value, rel=1e-4, abs=1e-6), name


MEAN_OVER_SEQS = {"class": "reduce", "mode": "mean", "axes": "B", "from": "output", "loss": "as_is"}


@pytest.mark.parametrize(
    ("more", "limit", "reason"),
    [
        ({"over": MEAN_OVER_SEQS}, 300, "the loss 'over' is not a sum over the sequences"),
        ({}, 1, "two sequences do not fit"),
    ],
)
def test_why_not(tmp_path, more, limit, reason):
    with pytest.raises(UserError, match=f"memory is not enough: .*\n  Not split into parts, as {reason}"):
        train(tmp_path / "run", {**network(limit), **more})
