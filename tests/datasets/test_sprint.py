from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy
import pytest

from returnn.datasets.sprint import ExternSprintDataset, SprintCacheDataset, SprintDatasetBase, demo, sprint_process
from returnn.util.errors import ConfigError, UserError
from returnn.util.system import waiting
from tests.datasets.corpus_checks import assert_equal_seqs, check_corpus_dataset, seqs_of_epoch
from tests.datasets.util.test_rasr_archive import ALLOPHONES, write_alignments, write_features
from tests.patience import Clock, is_running, wait_until

FAKE_RASR = [sys.executable, str(Path(__file__).with_name("fake_rasr.py"))]
CORPUS = {"seq0": ("a b", 3), "seq1": ("b", 7), "seq2": ("c a", 2), "seq3": ("a", 4)}  # text and number of frames


def corpus_arg(corpus=CORPUS):
    return "--corpus=" + ";".join(f"{name}:{orth}:{num}" for name, (orth, num) in corpus.items())


@pytest.fixture
def make():
    datasets = []

    def make_dataset(args=(), **opts):
        opts = {"sprintTrainerExecPath": FAKE_RASR, "sprintConfigStr": [f"'{corpus_arg()}'", *args], **opts}
        dataset = ExternSprintDataset(**opts)
        datasets.append(dataset)
        dataset.initialize()
        return dataset

    yield make_dataset
    for dataset in datasets:
        dataset.finish_epoch(free_resources=True)


def tags_of_epoch(dataset, epoch=1, **opts):
    dataset.init_seq_order(epoch=epoch, **opts)
    return [tag for tag, _ in seqs_of_epoch(dataset)]


@pytest.mark.parametrize("interface", ["trainer", "control"])
def test_sequences_come_through_the_pipe(make, interface):
    dataset = make([f"--interface={interface}"])
    assert dataset.num_outputs == {"orth": (256, 1), "data": (2, 2), "classes": (5, 1)}
    dataset.init_seq_order(epoch=1)
    seqs = seqs_of_epoch(dataset)
    assert [tag for tag, _ in seqs] == list(CORPUS)
    for tag, data in seqs:
        orth, num_frames = CORPUS[tag]
        assert data["data"].shape == (num_frames, 2)
        assert data["data"][:, 1].tolist() == list(range(num_frames))
        assert data["classes"].tolist() == [i % 5 for i in range(num_frames)]
        assert bytes(data["orth"]).decode() == orth
    assert dataset.num_seqs == 4


def test_epochs_and_parts(make):
    dataset = make(partitionEpoch=2)
    assert tags_of_epoch(dataset, 1) == ["seq0", "seq1"]
    assert tags_of_epoch(dataset, 2) == ["seq2", "seq3"]
    assert tags_of_epoch(dataset, 1) == ["seq0", "seq1"]
    seeds = []
    for epoch in (1, 2, 3):
        dataset.init_seq_order(epoch=epoch)
        seeds.append(seqs_of_epoch(dataset)[0][1]["data"][0, 0])
    assert seeds[0] == seeds[1] != seeds[2]


def test_list_of_sequences(make):
    dataset = make()
    assert tags_of_epoch(dataset, seq_list=["seq3", "seq1"]) == ["seq3", "seq1"]
    with pytest.raises(ConfigError, match="RASR knows sequences by name alone"):
        dataset.init_seq_order(seq_order=[1])


def test_filter_by_tags(make, tmp_path):
    (tmp_path / "tags").write_text("seq2\nseq0\n")
    assert tags_of_epoch(make(seq_list_filter_file=str(tmp_path / "tags"))) == ["seq0", "seq2"]


def test_options_that_are_not_possible_are_named():
    with pytest.raises(ConfigError, match="'repeat_epoch' and 'unique_seq_tags' are not possible with RASR"):
        ExternSprintDataset(FAKE_RASR, "", repeat_epoch=2)


def test_going_back_starts_the_epoch_anew(make):
    dataset = make()
    dataset.init_seq_order(epoch=1)
    first = seqs_of_epoch(dataset)
    assert_equal_seqs(seqs_of_epoch(dataset), first)
    assert_equal_seqs(seqs_of_epoch(dataset, start=2), first[2:])


def test_epoch_can_be_given_up_while_rasr_waits(make, monkeypatch):
    monkeypatch.setattr(ExternSprintDataset, "SprintCachedSeqsMax", 1)
    monkeypatch.setattr(ExternSprintDataset, "SprintCachedSeqsMin", 0)
    dataset = make()
    for epoch in (1, 2, 3):
        dataset.init_seq_order(epoch=epoch)
        dataset.load_seqs(0, 1)
    assert tags_of_epoch(dataset, 3) == list(CORPUS)


def test_process_ends_with_the_epoch(make):
    dataset = make()
    dataset.init_seq_order(epoch=1)
    dataset.load_seqs(0, 1)
    pid = dataset.child_pid
    dataset.finish_epoch()
    assert dataset.child_pid is None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_options_for_targets(make, tmp_path):
    vocab = tmp_path / "vocab"
    vocab.write_text("a\nb\nc\n")
    dataset = make(
        input_stddev=2.0,
        reduce_target_factor=2,
        str_add_final_zero=True,
        orth_post_process="get_replace('c', 'b')",
        orth_vocab={"vocab_file": str(vocab)},
        suppress_load_seqs_print=True,
    )
    dataset.init_seq_order(epoch=1)
    data = seqs_of_epoch(dataset)[2][1]
    assert data["data"][:, 1].tolist() == [0, 0.5]
    assert data["classes"].tolist() == [0]
    assert bytes(data["orth"]) == b"b a"
    assert bytes(data["orth0"]) == b"b a\0"
    assert dataset.num_outputs["orth0"] == (256, 1)
    assert (dataset.get_data_dtype("orth0"), data["orth0"].dtype) == ("uint8", "uint8")
    assert data["orth_classes"].tolist() == [1, 0]
    assert dataset.serialize_data("orth_classes", data["orth_classes"]) == "b a"


def test_labels_of_parts_of_words(make, tmp_path):
    (tmp_path / "vocab").write_text("a\nb@@\nb\nc\nabc\n")
    (tmp_path / "codes").write_text("#version: 0.2\na b\nab c</w>\n")
    bpe = {"vocab_file": str(tmp_path / "vocab"), "bpe_file": str(tmp_path / "codes"), "seq_postfix": [0]}
    dataset = make(bpe=bpe, orth_post_process=lambda text: text.replace("c", "abc"))
    assert dataset.num_outputs["bpe"] == (5, 1)
    dataset.init_seq_order(epoch=1)
    assert [data["bpe"].tolist() for _, data in seqs_of_epoch(dataset)] == [[0, 2, 0], [2, 0], [4, 0, 0], [0, 0]]
    assert dataset.serialize_data("bpe", numpy.array([4, 0])) == "abc a"
    assert dataset.get_data_dtype("bpe") == "int32"


def test_text_of_sequences_from_another_thread():
    """As a program does that has RASR in it."""
    dataset = SprintDatasetBase(str_add_final_zero=True, input_stddev=4.0, reduce_target_factor=3)
    dataset.set_dimensions(2, 9)
    dataset.init_seq_order(epoch=1)
    dataset.init_sprint_epoch(1)
    targets = {"classes": numpy.arange(7), "orth": "ü".encode(), "speaker_name": "me"}
    dataset.add_new_data(numpy.full((2, 7), 2.0), targets, segment_name="seq")
    dataset.finish_sprint_epoch()
    ((tag, data),) = [(dataset.get_tag(0), dataset._get_existing_seq(0).features)]
    assert tag == "seq"
    assert data["data"].tolist() == [[0.5, 0.5]] * 7
    assert data["classes"].tolist() == [0, 3, 6]
    texts = {key: bytes(value) for key, value in data.items() if value.dtype == "uint8"}
    assert texts == {
        "orth": "ü".encode(),
        "orth0": "ü".encode() + b"\0",
        "speaker_name": b"me",
        "speaker_name0": b"me\0",
    }


@pytest.mark.parametrize(("option", "value"), [("input_stddev", 0), ("input_stddev", -1), ("reduce_target_factor", 0)])
def test_numbers_that_are_not_positive_are_named(option, value):
    with pytest.raises(ConfigError, match=f"option '{option}'"):
        SprintDatasetBase(**{option: value})


def test_demo_prints_sequences(monkeypatch, capsys, tmp_path):
    program = tmp_path / "nn-trainer"
    program.write_text(f'#!/bin/sh\nexec {" ".join(FAKE_RASR)} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setattr(sys, "argv", ["sprint", str(program), corpus_arg()])
    demo()
    assert capsys.readouterr().out.startswith("seq0:\n  orth: (3,)\n  data: (3, 2)\n  classes: (3,)\nseq1:\n")


def error_of(func):
    with pytest.raises(UserError) as error:
        func()
    message = str(error.value)
    assert len(message.splitlines()) <= 5
    return message


def test_missing_program_is_named():
    message = error_of(lambda: ExternSprintDataset("/no/nn-trainer", "--config=x"))
    assert "option 'sprintTrainerExecPath': there is no program '/no/nn-trainer'" in message


def test_death_of_rasr_is_told_with_its_last_words(make):
    message = error_of(lambda: make(["--crash=begin"], name="train"))
    assert message == (
        "ExternSprintDataset 'train': RASR has ended before the first sequence (exit status 3).\n"
        "  configuration error: no corpus"
    )
    dataset = make(["--crash=middle"])
    dataset.init_seq_order(epoch=1)
    message = error_of(lambda: seqs_of_epoch(dataset))
    assert message.endswith("RASR has ended in the middle of the epoch (exit status 4).\n  out of memory")


@pytest.fixture
def hangs(monkeypatch, tmp_path):
    """Function: whether RASR hangs. From then on, time flies."""
    path = tmp_path / "hangs"
    monkeypatch.setenv("FAKE_RASR_HANGS", str(path))
    monkeypatch.setattr(waiting, "time", Clock(path.exists))
    monkeypatch.setattr(sprint_process, "_POLL_S", 0.1)
    monkeypatch.setattr(sprint_process, "data_wait_limit_s", lambda: 100.0)
    return path.exists


LIMIT = r"waited for \d+ s: RASR, process \d+"


def test_rasr_that_hangs_at_its_beginning(make, hangs, capfd):
    message = error_of(lambda: make(["--hang=begin"]))
    assert re.fullmatch(LIMIT + r"\.\n  That is the limit, so this ends here\.", message)
    assert re.search(r"waiting for \d+ s now: RASR, process", capfd.readouterr().err)


def test_rasr_that_hangs_in_the_middle(make, hangs):
    dataset = make(["--hang=middle"])
    dataset.init_seq_order(epoch=1)
    assert re.match(LIMIT + r"\.", error_of(lambda: seqs_of_epoch(dataset)))


def test_rasr_that_was_stopped(make, hangs, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(waiting, "time", clock)
    dataset = make(["--hang=middle"])
    dataset.init_seq_order(epoch=1)
    wait_until(hangs)
    os.kill(dataset.child_pid, signal.SIGSTOP)
    clock.hang()
    message = error_of(lambda: seqs_of_epoch(dataset))
    assert re.match(LIMIT + r", which was stopped \(SIGSTOP\)\.", message)
    dataset.finish_epoch()  # which does not wait for it
    assert dataset.child_pid is None


def test_killed_process_leaves_no_rasr(tmp_path, hangs):
    code = (
        "import sys\n"
        "from returnn.datasets.sprint import ExternSprintDataset\n"
        f"dataset = ExternSprintDataset({FAKE_RASR!r}, [{corpus_arg()!r}.join(2 * [chr(39)]), '--hang=middle'])\n"
        "dataset.initialize()\n"
        "dataset.init_seq_order(epoch=1)\n"
        "print(dataset.child_pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        child_pid = int(process.stdout.readline())
        os.kill(child_pid, signal.SIGSTOP)
        process.kill()
    wait_until(lambda: not is_running(child_pid), lambda: "RASR is left")


def test_wrong_data_from_rasr_is_named(make, tmp_path):
    dataset = make(["--features=3"])
    dataset.init_seq_order(epoch=1)
    assert "sequence 'seq0': RASR gives 2 features, it has announced 3" in error_of(lambda: seqs_of_epoch(dataset))
    vocab = tmp_path / "vocab"
    vocab.write_text("a\nb\n")
    dataset = make(orth_vocab={"vocab_file": str(vocab)})
    dataset.init_seq_order(epoch=1)
    assert "there is no label 'c', and no 'unknown_label'" in error_of(lambda: seqs_of_epoch(dataset))


class InThread:
    """A data set whose sequences come from a thread in the same process."""

    def __init__(self, **opts):
        self.dataset = SprintDatasetBase(**opts)
        self.dataset.use_multiple_epochs()
        self.dataset.set_dimensions(2, 0)
        self.thread = threading.Thread(target=self.produce, daemon=True)
        self.thread.start()

    def produce(self):
        for epoch in (1, 2):
            self.dataset.init_sprint_epoch(epoch)
            for i in range(3):
                self.dataset.set_complete_frac((i + 1) / 3)
                self.dataset.add_new_data(numpy.full((2, 4), epoch), {"state": ["x", "y"]}, segment_name=f"seq{i}")
            self.dataset.finish_sprint_epoch()
        self.dataset.finalize_sprint()


def test_data_from_a_thread():
    source = InThread(target_maps={"state": {"x": 0, "y": 3}})
    for epoch in (1, 2):
        source.dataset.init_seq_order(epoch=epoch)
        source.dataset.load_seqs(0, 1)
        numpy.testing.assert_array_equal(source.dataset.get_input_data(sorted_seq_idx=0), numpy.full((4, 2), epoch))
        assert source.dataset.get_targets("state", sorted_seq_idx=0).tolist() == [0, 3]
        seqs = seqs_of_epoch(source.dataset)
        assert [data["data"][0, 0] for _, data in seqs] == [epoch] * 3
        assert [data["state"].tolist() for _, data in seqs] == [[0, 3]] * 3
    source.thread.join()
    assert source.dataset.num_outputs["state"] == (4, 1)


@pytest.fixture
def caches(tmp_path):
    (tmp_path / "allophones").write_text("\n".join(ALLOPHONES))
    (tmp_path / "tying").write_text("si{#+#}@i@f.0 2\na{#+b}@i.0 0\na{#+b}@i.1 1\n")
    labeling = {"silence_phone": "si", "allophone_file": str(tmp_path / "allophones")}
    labeling["state_tying_file"] = str(tmp_path / "tying")
    alignments = {f"corpus/seq{i}": ([1, 1, 4, 0] * 5)[: i + 1] for i in range(5)}
    return {
        "data": {"filename": write_features(tmp_path / "features", num=5)},
        "classes": {"filename": write_alignments(tmp_path / "align", alignments), "allophone_labeling": labeling},
    }


def test_cache_properties(caches):
    check_corpus_dataset(lambda **opts: SprintCacheDataset(data=caches, **opts))


def test_cache_data(caches):
    dataset = SprintCacheDataset(data=caches)
    assert dataset.num_outputs == {"data": (3, 2), "classes": (3, 1)}
    dataset.init_seq_order(epoch=1)
    tag, data = seqs_of_epoch(dataset)[3]
    assert tag == dataset.seq_list_ordered[3] == dataset.get_tag(sorted_seq_idx=3) == "corpus/seq3"
    assert data["data"].shape == (4, 3)
    assert data["classes"].tolist() == [0, 0, 1, 2]


def test_wrong_cache_options_are_named(caches, tmp_path):
    with pytest.raises(ConfigError, match=r"data key 'data'.*there is no data_type 'features'"):
        SprintCacheDataset(data={"data": {**caches["data"], "data_type": "features"}})
    with pytest.raises(ConfigError, match="'allophone_labeling' is needed for 'align'"):
        SprintCacheDataset(data={"data": {**caches["data"], "data_type": "align"}})
    other = {"filename": write_features(tmp_path / "other", num=6)}
    with pytest.raises(
        ConfigError, match=r"data key 'classes': the sequence 'corpus/seq5' of .*other' is not in .*align'"
    ):
        SprintCacheDataset(data={"data": other, "classes": caches["classes"]})
