"""RASR as the main program, which a script stands in for: it trains our network, and asks it for outputs and scores."""

from __future__ import annotations

import os
import subprocess
import sys
from ast import literal_eval
from pathlib import Path

import numpy
import pytest

from returnn.sprint import interface
from returnn.util.errors import ConfigError, UserError
from tests.patience import PATIENCE_S

FAKE_RASR = Path(__file__).with_name("fake_rasr_main.py")
CONFIG = """#!rnn.py
import os
extern_data = {"data": {"dim": 3}, "classes": {"dim": 4, "sparse": True}}
network = {"output": {"class": "softmax", "from": "data", "loss": "ce"}}
model = os.environ["MODEL"]
optimizer = {"class": "adam"}
learning_rate = 0.1
num_epochs = 2
batch_size = 100
max_seqs = 2
log_verbosity = 3
sprint_interface_dataset_opts = {"seq_ordering": "reverse"}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Function that runs RASR. :return: exit status, lines that it has printed itself, all of its output"""
    folder = tmp_path_factory.mktemp("rasr")
    config = folder / "our.config"
    config.write_text(CONFIG, encoding="utf8")

    def run(mode, **opts):
        action = "train" if mode == "train" else "forward"
        options = ",".join(f"{key}:{value}" for key, value in {"configfile": config, "action": action, **opts}.items())
        env = {**os.environ, "MODEL": str(folder / "model"), "PYTHONPATH": str(FAKE_RASR.parents[2])}
        command = [sys.executable, str(FAKE_RASR), mode, options]
        result = subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        lines = [line for line in result.stdout.splitlines() if line.startswith(("fed ", "output ", "score "))]
        return result.returncode, lines, result.stdout + result.stderr

    run.folder = folder
    return run


def values(lines):
    return {line.split(" ", 2)[1]: numpy.array(literal_eval(line.split(" ", 2)[2])) for line in lines}


def test_rasr_trains_and_asks_for_outputs_and_scores(run):
    status, lines, text = run("train")
    assert status == 0, text
    names = ["corpus/c", "corpus/b", "corpus/a"]
    assert lines == [f"fed {name}" for name in 2 * names]
    assert (run.folder / "model.002.index").exists()

    prior = numpy.log([0.1, 0.2, 0.3, 0.4])
    numpy.savetxt(run.folder / "prior", prior)
    status, lines, text = run("score", epoch=2, prior_file=run.folder / "prior")
    assert status == 0, text
    outputs, scores = (values([line for line in lines if line.startswith(kind)]) for kind in ("output", "score"))
    assert list(outputs) == list(scores) == sorted(names)
    for name in names:
        numpy.testing.assert_allclose(outputs[name].sum(), 1, rtol=1e-4)
        numpy.testing.assert_allclose(scores[name], prior - numpy.log(outputs[name]), atol=1e-4)


def test_what_is_wrong_with_the_training_ends_rasr(run):
    (run.folder / "other.config").write_text(
        CONFIG.replace('"class": "softmax"', '"class": "softmaxx"'), encoding="utf8"
    )
    status, _, text = run("train", configfile=run.folder / "other.config", epoch=9)
    assert status != 0
    assert "there is no layer class 'softmaxx'" in text


def test_what_is_not_possible():
    with pytest.raises(ConfigError, match="the criterion cannot be computed by RASR"):
        interface.set_target_mode("criterion-by-sprint")
    with pytest.raises(UserError, match="there is no target mode 'target-alignmant'"):
        interface.set_target_mode("target-alignmant")
    with pytest.raises(ConfigError, match="there is no action 'nothing'"):
        list(interface.getSegmentList("corpus", [], config="action:nothing"))


def test_frames_come_in_their_order():
    scorer = interface.PythonFeatureScorer(None, 4, {})
    scorer.add_feature(numpy.zeros(3), 0)
    with pytest.raises(UserError, match="segment-0: RASR gives frame 2, 1 should be next"):
        scorer.add_feature(numpy.zeros(3), 2)
    assert scorer.get_features().shape == (3, 1)
    dataset, seq_idx = scorer.features_to_dataset()
    assert dataset.get_tag(seq_idx) == "segment-0"
