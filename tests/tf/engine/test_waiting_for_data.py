"""A data set that never returns is said to be waited for, and is an error some time."""

import io
import re
import sys
import threading
import time

import pytest

from returnn.config import Config
from returnn.datasets.generating import Task12AXDataset
from returnn.engine.data import load_dataset
from returnn.log import log
from returnn.tf.engine import tasks
from returnn.util.errors import UserError
from returnn.util.system import waiting
from tests.patience import Clock
from tests.tf.engine.small_config import config


def test_data_set_that_takes_long_to_make(monkeypatch):
    said = io.StringIO()

    class Slow(Task12AXDataset):
        def initialize(self):
            while "takes" not in said.getvalue():
                time.sleep(0.01)

    monkeypatch.setattr(waiting, "FIRST_REPORT_S", 0.1)
    monkeypatch.setattr(sys, "stderr", said)
    load_dataset(Config({"train": {"class": Slow, "num_seqs": 3}}), "train")
    first = Slow.initialize.__code__.co_firstlineno
    place = rf"in {re.escape(__file__)}, line ({first + 1}|{first + 2})\n"
    assert re.match(rf"to make the data set 'train' takes \d+ s now, {place}", said.getvalue())


@pytest.mark.parametrize("pipeline", [False, True])
def test_hanging_data_set_is_named_and_ends(pipeline, tmp_path, monkeypatch, capsys):
    never, clock = threading.Event(), Clock()

    def generate_seq(self, seq_idx):
        never.wait(clock.hang())

    monkeypatch.setattr(waiting, "time", clock)
    monkeypatch.setattr(Task12AXDataset, "generate_seq", generate_seq)
    log.initialize(verbosity=[5])
    with pytest.raises(UserError) as info:
        tasks.train(config(tmp_path, data_wait_limit_s=100.0, dataset_pipeline=pipeline))
    never.set()
    what = f"a batch of Task12AXDataset 'train', in {__file__}, line {generate_seq.__code__.co_firstlineno + 1}"
    said = re.sub(r"^waited for \d+ s", "waited for N s", str(info.value))
    assert said == f"waited for N s: {what}.\n  That is the limit, so this ends here."
    assert re.search(rf"waiting for \d+ s now: {re.escape(what)}", capsys.readouterr().out)
