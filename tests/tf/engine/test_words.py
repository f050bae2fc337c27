"""What goes wrong in data and files is said in a few lines."""

import numpy
import pytest

from returnn.datasets.generating import Task12AXDataset
from returnn.datasets.hdf import SimpleHDFWriter
from returnn.log import log
from returnn.tf.engine import tasks
from returnn.util.errors import UserError
from tests.tf.engine.small_config import config


@pytest.fixture(autouse=True)
def log_to_stdout(capsys):
    log.initialize(verbosity=[5])


def message(run, *args):
    with pytest.raises(UserError) as info:
        run(*args)
    text = str(info.value)
    assert len(text.splitlines()) <= 5
    return text


def test_exception_in_a_data_set_of_a_user(tmp_path, monkeypatch, capsys):
    def generate_seq(self, seq_idx):
        raise KeyError("my key")

    monkeypatch.setattr(Task12AXDataset, "generate_seq", generate_seq)
    text = message(tasks.train, config(tmp_path))
    assert text.startswith("Task12AXDataset 'train': KeyError: 'my key'\n")
    assert f"In {__file__}, line {generate_seq.__code__.co_firstlineno + 1}, generate_seq." in text
    assert "Traceback" in capsys.readouterr().out


def hdf_file(filename, tags):
    with SimpleHDFWriter(str(filename), dim=9, ndim=2) as writer:
        for tag in tags:
            writer.insert_batch(numpy.ones((1, 4, 9), "float32"), seq_len={0: [4]}, seq_tag=[tag])
    return {"class": "HDFDataset", "files": [str(filename)]}


def test_two_sequences_with_one_tag_in_a_search(tmp_path):
    network = {
        "probs": {"class": "softmax", "from": "data", "n_out": 2},
        "output": {"class": "reduce", "mode": "argmax", "axis": "F", "from": "probs"},
    }
    options = {
        "task": "search", "search_data": hdf_file(tmp_path / "x.hdf", ["a", "b", "c", "a"]), "network": network,
        "search_output_file": str(tmp_path / "hyps"), "search_do_eval": False, "allow_random_model_init": True,
    }  # fmt: skip
    text = message(tasks.search_task, config(tmp_path, **options))
    assert text.startswith("search: two sequences have the tag 'a', so the hypotheses of one would be lost.")


def test_tag_that_is_not_utf8(tmp_path):
    data = hdf_file(tmp_path / "x.hdf", ["aaaa", "bbbb"])
    content = (tmp_path / "x.hdf").read_bytes()
    assert content.count(b"bbbb") == 1
    (tmp_path / "x.hdf").write_bytes(content.replace(b"bbbb", b"bb\xff\xfe"))
    text = message(
        tasks.train,
        config(
            tmp_path,
            train=data,
            network={"output": {"class": "linear", "n_out": 2, "activation": None, "from": "data", "loss": "as_is"}},
        ),
    )
    assert "is not UTF-8" in text
    assert "xff" in text


def test_learning_rate_file_that_cannot_be_written_is_found_first(tmp_path):
    (tmp_path / "file").write_text("no folder")
    text = message(tasks.train, config(tmp_path, learning_rate_file=str(tmp_path / "file" / "rates")))
    assert text.startswith(f"option 'learning_rate_file': '{tmp_path}/file/rates' cannot be written: ")
    assert not list(tmp_path.glob("*.index"))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (bytes(range(128, 256)) * 20, "'utf-8' codec can't decode byte 0x80"),
        (b"{1: EpochData(learningRate='x')}", "the learning rate of epoch 1 is 'x', expected a number"),
        (b"{'a': EpochData(learningRate=0.1)}", "'a' is no epoch"),
    ],
)
def test_learning_rate_file_with_wrong_content(content, reason, tmp_path):
    (tmp_path / "rates").write_bytes(content)
    text = message(tasks.train, config(tmp_path, learning_rate_file=str(tmp_path / "rates")))
    assert text.startswith(f"learning rate file '{tmp_path}/rates' cannot be read: ")
    assert reason in text
