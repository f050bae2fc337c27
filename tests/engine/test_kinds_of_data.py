"""Data of any number of axes, lengths and dtypes goes through all tasks, and a batch of one is a batch of many."""

from __future__ import annotations

import contextlib
import itertools
import json
from pathlib import Path

import numpy
import pytest

import returnn
import returnn.__main__ as rnn
from tests.engine.kinds_of_data import KINDS, NUM_SEQS, inputs
from tests.serve.asking import ask
from tests.serve.test_model_service import serving

CONFIG = """#!rnn.py
import tests.engine.kinds_of_data as kinds
from tests.serve.asking import ask
from tests.serve.test_model_service import serving
from tests.engine.kinds_of_data import forward_step, get_model, train_step

behavior_version = 30
backend, task = {backend!r}, "train"
extern_data = kinds.extern_data({kind!r})
train = dev = {{"class": "MapDatasetWrapper", "map_dataset": lambda: kinds.Data({kind!r})}}
num_epochs, max_seqs, batch_size = 1, 3, 1000
optimizer, learning_rate = {{"class": "adam"}}, 0.01
model = "net"
use_tensorboard = False
"""
BACKENDS = ("tensorflow", "torch", "tensorflow-net-dict")


@pytest.mark.parametrize(("kind", "backend"), [*zip(KINDS, itertools.cycle(BACKENDS), strict=False),
    ("two lengths", "torch"), ("two lengths", "tensorflow"), ("two lengths, both of them shared", "torch"),
])  # fmt: skip
def test_trains_and_computes_the_same_in_any_batch(
    kind: str, backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my.config").write_text(CONFIG.format(kind=kind, backend=backend))
    for task in ("check", "train", "eval"):
        assert rnn.main(["rnn.py", "my.config", "++task", task]) == 0, capsys.readouterr().err
    outputs = []
    for max_seqs in (1, 3):
        with contextlib.closing(returnn.load("my.config", max_seqs=max_seqs)) as model:
            outputs.append(numpy.stack(model.forward(inputs(kind))))
    assert outputs[0].shape == (NUM_SEQS, 3)
    assert len(numpy.unique(outputs[0].round(5), axis=0)) == NUM_SEQS  # they depend on the data
    numpy.testing.assert_allclose(numpy.exp(outputs[0]).sum(axis=1), 1.0, rtol=1e-5)
    numpy.testing.assert_allclose(outputs[0], outputs[1], rtol=1e-4, atol=1e-5)
    last = {key: arrays[-1].tolist() for key, arrays in inputs(kind).items()}
    with serving(returnn.load("my.config", web_server_output="forward", web_server_port=0)) as url:
        status, answer = ask(f"{url}/forward", json.dumps({"input": last}))
    assert status == 200, answer
    numpy.testing.assert_allclose(answer["output"], outputs[0][-1], rtol=1e-4, atol=1e-5)
