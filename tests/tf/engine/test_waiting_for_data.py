"""A data set that never returns is said to be waited for, and is an error some time."""

import threading

import pytest

from returnn.datasets.generating import Task12AXDataset
from returnn.log import log
from returnn.tf.engine import tasks
from returnn.util.errors import UserError
from returnn.util.system import waiting
from tests.tf.engine.small_config import config


def test_hanging_data_set_is_named_and_ends(tmp_path, monkeypatch, capsys):
    never = threading.Event()

    def generate_seq(self, seq_idx):
        never.wait()

    monkeypatch.setattr(waiting, "FIRST_REPORT_S", 0.3)
    monkeypatch.setattr(Task12AXDataset, "generate_seq", generate_seq)
    log.initialize(verbosity=[5])
    with pytest.raises(UserError) as info:
        tasks.train(config(tmp_path, data_wait_limit_s=2.0))
    never.set()
    what = f"a batch of Task12AXDataset 'train', in {__file__}, line {generate_seq.__code__.co_firstlineno + 1}"
    assert str(info.value) == f"waited for 2 s: {what}.\n  That is the limit, so this ends here."
    assert f"waiting for 0 s now: {what}" in capsys.readouterr().out
