"""A data set that never returns is said to be waited for, and is an error some time."""

import re
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
from tests.tf.engine.small_config import config


def test_data_set_that_takes_long_to_make(monkeypatch, capfd):
    class Slow(Task12AXDataset):
        def initialize(self):
            time.sleep(0.5)

    monkeypatch.setattr(waiting, "FIRST_REPORT_S", 0.1)
    load_dataset(Config({"train": {"class": Slow, "num_seqs": 3}}), "train")
    (line,) = capfd.readouterr().err.splitlines()[:1]
    place = f"in {__file__}, line {Slow.initialize.__code__.co_firstlineno + 1}"
    assert line == f"to make the data set 'train' takes 0 s now, {place}"


@pytest.mark.parametrize("pipeline", [False, True])
def test_hanging_data_set_is_named_and_ends(pipeline, tmp_path, monkeypatch, capsys):
    never = threading.Event()

    def generate_seq(self, seq_idx):
        never.wait()

    monkeypatch.setattr(waiting, "FIRST_REPORT_S", 0.3)
    monkeypatch.setattr(Task12AXDataset, "generate_seq", generate_seq)
    log.initialize(verbosity=[5])
    with pytest.raises(UserError) as info:
        tasks.train(config(tmp_path, data_wait_limit_s=2.0, dataset_pipeline=pipeline))
    never.set()
    what = f"a batch of Task12AXDataset 'train', in {__file__}, line {generate_seq.__code__.co_firstlineno + 1}"
    said = re.sub(r"^waited for \d+ s", "waited for N s", str(info.value))
    assert said == f"waited for N s: {what}.\n  That is the limit, so this ends here."
    assert f"waiting for 0 s now: {what}" in capsys.readouterr().out
