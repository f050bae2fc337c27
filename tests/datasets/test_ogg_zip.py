from __future__ import annotations

import gzip
import multiprocessing
import zipfile

import numpy
import pytest

from returnn.datasets.audio import OggZipDataset
from returnn.util.errors import ConfigError, UserError
from tests.datasets.corpus_checks import assert_equal_seqs, check_corpus_dataset, seqs_of_epoch
from tests.datasets.util.test_feature_extraction import RATE, sawtooth, wav_bytes
from tests.patience import PATIENCE_S

TEXTS = ["one two", "three", "four one", "two", "six seven eight"]
DURATIONS = [0.3, 0.1, 0.2, 0.05, 0.4]
VOCAB = {
    "class": "Vocabulary",
    "vocab_file": None,
    "labels": ["one", "two", "three", "four", "five", "six", "seven", "eight"],
}
AUDIO = {"features": "raw", "peak_normalization": False}


def entries():
    return [
        {"text": text, "duration": duration, "file": f"{i}.wav", "seq_name": f"seq{i}"}
        for i, (text, duration) in enumerate(zip(TEXTS, DURATIONS, strict=True))
    ]


def write_zip(path, content=None, *, name=None, has_prefix=True, text=None):
    content = entries() if content is None else content
    name = name or path.name.removesuffix(".zip")
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(f"{name}.txt", text if text is not None else "[\n" + ",\n".join(map(repr, content)) + "\n]\n")
        for entry in content:
            prefix = f"{name}/" if has_prefix else ""
            file.writestr(f"{prefix}{entry['file']}", wav_bytes(sawtooth(entry["duration"])))
    return str(path)


@pytest.fixture
def archive(tmp_path):
    return write_zip(tmp_path / "train.ogg.zip", name="train.ogg")


def make(path, **opts):
    return OggZipDataset(**{"path": path, "audio": AUDIO, "targets": VOCAB, **opts})


def test_properties(archive):
    check_corpus_dataset(lambda **opts: make(archive, **opts))


def test_properties_with_random_audio(archive):
    audio = {**AUDIO, "random_permute": {"rnd_stretch_switch": 0, "rnd_pitch_switch": 0}}
    check_corpus_dataset(lambda **opts: make(archive, audio=audio, **opts), is_random=True)


@pytest.mark.parametrize("opts", [{"audio": None}, {"targets": None}, {"audio": {"num_feature_filters": 5}}], ids=str)
def test_properties_of_parts(archive, opts):
    check_corpus_dataset(lambda **more: make(archive, **opts, **more))


def test_data(archive):
    dataset = make(archive)
    dataset.init_seq_order()
    assert dataset.get_data_keys() == ["data", "classes", "orth", "raw"]
    assert dataset.get_data_shape("raw") == []
    tag, data = seqs_of_epoch(dataset)[0]
    assert tag == "seq0"
    assert data["data"].shape == (int(0.3 * RATE), 1)
    assert data["classes"].tolist() == [0, 1]
    assert bytes(data["orth"]) == b"one two"
    assert str(data["raw"]) == "one two"
    assert dataset.serialize_data("classes", data["classes"]) == "one two"


def test_order_by_duration(archive):
    dataset = make(archive, seq_ordering="sorted")
    dataset.init_seq_order()
    assert [tag for tag, _ in seqs_of_epoch(dataset)] == ["seq3", "seq1", "seq2", "seq0", "seq4"]


def test_segment_file_and_subset(archive, tmp_path):
    (tmp_path / "segments.gz").write_bytes(gzip.compress(b"seq1\nseq4\n"))
    assert make(archive, segment_file=str(tmp_path / "segments.gz")).get_all_tags() == ["seq1", "seq4"]
    half = make(archive, fixed_random_subset=0.5).get_all_tags()
    assert len(half) == 2
    assert half == make(archive, fixed_random_subset=2).get_all_tags() == sorted(half)
    others = [make(archive, fixed_random_subset=2, fixed_random_subset_seed=seed).get_all_tags() for seed in range(9)]
    assert any(other != half for other in others)
    assert make(archive, fixed_random_subset=9).get_total_num_seqs() == 5


@pytest.mark.parametrize(("is_new", "expected"), [(True, ["seq1", "seq2", "seq3"]), (False, ["seq3", "seq1", "seq2"])])
def test_epoch_wise_filter(archive, is_new, expected):
    rule = {"max_mean_len": 12, "use_new_filter": is_new}
    dataset = make(archive, epoch_wise_filter={(2, 3): rule}, partition_epoch=1)
    tags = []
    for epoch in range(1, 5):
        dataset.init_seq_order(epoch=epoch)
        tags.append([tag for tag, _ in seqs_of_epoch(dataset)])
    assert tags[0] == tags[3] == dataset.get_all_tags()
    assert tags[1] == tags[2] == expected


def test_epochs_of_the_filter_are_those_of_the_training(archive):
    rules = {(3, 9): {"max_mean_len": 25, "use_new_filter": True}, (1, 3): {"max_mean_len": 15, "use_new_filter": True}}
    dataset = make(archive, epoch_wise_filter=rules, partition_epoch=2)
    tags = []
    for epoch in range(1, 5):
        dataset.init_seq_order(epoch=epoch)
        tags.append([tag for tag, _ in seqs_of_epoch(dataset)])
    # Of the two rules for epoch 3, the first in sorted order counts.
    assert tags == [["seq1", "seq2"], ["seq3"], ["seq1", "seq2"], ["seq3", "seq4"]]


def test_several_archives_and_names(archive, tmp_path):
    content = [{**entry, "seq_name": f"other{i}"} for i, entry in enumerate(entries())]
    other = write_zip(tmp_path / "dev.zip", content)
    dataset = make([archive, other])
    dataset.init_seq_order()
    assert [tag for tag, _ in seqs_of_epoch(dataset)] == [f"seq{i}" for i in range(5)] + [f"other{i}" for i in range(5)]
    renamed = write_zip(tmp_path / "x.zip", name="y")
    assert make(renamed).get_total_num_seqs() == 5
    with zipfile.ZipFile(renamed, "a") as file:
        file.writestr("z.txt", "[]")
    with pytest.raises(
        UserError, match=r"x.zip' has no list 'x.txt', but y.txt, z.txt.\n  Set the option 'content_name' to 'y'"
    ):
        make(renamed)
    dataset = make(renamed, content_name="y")
    dataset.init_seq_order()
    assert len(seqs_of_epoch(dataset)) == 5
    (tmp_path / "link.zip").symlink_to(other)
    assert make(str(tmp_path / "link.zip"), resolve_symlink_for_name=True).get_total_num_seqs() == 5
    flat = write_zip(tmp_path / "flat.zip", has_prefix=False)
    dataset = make(flat, zip_audio_files_have_name_as_prefix=False)
    dataset.init_seq_order()
    assert len(seqs_of_epoch(dataset)) == 5


def test_list_outside_of_the_archive(archive, tmp_path):
    path = tmp_path / "train.ogg.txt.gz"
    path.write_bytes(gzip.compress(repr(entries()[1:3]).encode()))
    assert make([archive, str(path)]).get_all_tags() == ["seq1", "seq2"]
    assert make(str(path), audio=None).get_all_tags() == ["seq1", "seq2"]
    with pytest.raises(ConfigError, match=r"option 'path' has no archive 'train.ogg.zip'"):
        make(str(path))


def test_post_processing_and_channels(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("a.txt", "[{'text': 'One', 'duration': 0.1, 'file': 'x.wav'}]")
        file.writestr("a/x.wav", wav_bytes(numpy.stack([sawtooth(0.1), sawtooth(0.1)], axis=1)))
    dataset = make(str(path), targets_post_process="lowercase", audio={**AUDIO, "num_channels": 2})
    dataset.init_seq_order()
    [(tag, data)] = seqs_of_epoch(dataset)
    assert tag == "x.wav"
    assert data["classes"].tolist() == [0]
    assert data["data"].shape == (800, 2, 1)
    assert dataset.get_data_shape("data") == [2, 1]


def _tags_in_child(dataset, queue):
    queue.put([data["data"].sum() for _, data in seqs_of_epoch(dataset)])


def test_archive_is_read_by_forked_processes_at_once(archive):
    dataset = make(archive)
    dataset.init_seq_order()
    expected = [data["data"].sum() for _, data in seqs_of_epoch(dataset)]
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    children = [context.Process(target=_tags_in_child, args=(dataset, queue)) for _ in range(2)]
    for child in children:
        child.start()
    assert [queue.get(timeout=PATIENCE_S) for _ in children] == [expected, expected]
    for child in children:
        child.join()


def test_same_seed_same_audio(archive):
    audio = {**AUDIO, "random_permute": {"rnd_stretch_switch": 0, "rnd_pitch_switch": 0}}
    epochs = []
    for epoch in (1, 1, 2):
        dataset = make(archive, audio=audio)
        dataset.init_seq_order(epoch=epoch)
        epochs.append(seqs_of_epoch(dataset))
    assert_equal_seqs(epochs[0], epochs[1])
    assert any(a[1]["data"].sum() != b[1]["data"].sum() for a, b in zip(epochs[0], epochs[2], strict=True))


def error_of(func):
    with pytest.raises(UserError) as error:
        func()
    message = str(error.value)
    assert len(message.splitlines()) <= 5
    return message


def test_wrong_archive_is_named(tmp_path, archive):
    assert "Cannot open the archive" in error_of(lambda: make(str(tmp_path / "none.zip")))
    (tmp_path / "sub").mkdir()
    assert "'returnn tool make-ogg-zip' makes an archive" in error_of(lambda: make(str(tmp_path / "sub")))
    (tmp_path / "sub" / "train.zip").touch()
    assert "Files in it: '" in error_of(lambda: make(str(tmp_path / "sub")))
    assert "Did you mean '" in error_of(lambda: make(str(tmp_path / "sub" / "trian.zip")))
    (tmp_path / "broken.zip").write_bytes((tmp_path / "train.ogg.zip").read_bytes()[:5000])
    assert "broken.zip' is no zip file, or is not complete" in error_of(lambda: make(str(tmp_path / "broken.zip")))
    path = tmp_path / "list.zip"

    def load(text):
        return error_of(lambda: make(write_zip(path, text=text)))

    assert f"list.txt in {path}, line 2: it is no Python list of dicts" in load("[\n{'text': 'x'\n")
    assert f"File: list.txt in {path}, entry 0" in load("[{'text': 'x', 'file': 'y'}]")
    assert "OggZipDataset: 'duration' is missing" in load("[{'text': 'x', 'file': 'y'}]")
    assert "the list of recordings is empty" in load("[]")
    assert "expected a Python list of dicts, got dict" in load("{\n}")


def test_wrong_recording_is_named(tmp_path):
    path = tmp_path / "a.zip"

    def load(content=b"", **entry):
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("a.txt", repr([{"text": "one", "duration": 0.1, "file": "x.wav", **entry}]))
            file.writestr("a/x.wav", content)
        dataset = make(str(path), name="train")
        dataset.init_seq_order()
        return error_of(lambda: dataset.load_seqs(0, 1))

    message = error_of(lambda: load(file="y.wav"))  # at once, as it may be the last one of an epoch
    assert f"OggZipDataset 'train': sequence 'y.wav': there is no file 'a/y.wav' in the archive '{path}'" in message
    assert f"File: y.wav in {path}" in message
    message = load()
    assert "sequence 'x.wav': the audio file is empty" in message
    assert message.count("sequence 'x.wav'") == 1
    assert "there is no label 'nine', and no 'unknown_label' is set" in load(wav_bytes(sawtooth()), text="nine")


def test_flipped_bit_in_the_archive_is_an_error(archive, tmp_path):
    content = bytearray((tmp_path / "train.ogg.zip").read_bytes())
    content[3000] ^= 1
    (tmp_path / "flipped.zip").write_bytes(content)
    dataset = make(str(tmp_path / "flipped.zip"), content_name="train.ogg")
    dataset.init_seq_order()
    message = error_of(lambda: seqs_of_epoch(dataset))
    assert "sequence 'seq0': the file 'train.ogg/0.wav' in the archive" in message
    assert "is broken: Bad CRC-32" in message


@pytest.mark.parametrize(
    ("opts", "message"),
    [
        ({"fixed_random_subset": 1.5}, "'fixed_random_subset': 1.5 is no fraction and no number of sequences"),
        ({"epoch_wise_filter": {5: {}}}, "'epoch_wise_filter': 5 is no pair of first and last epoch"),
        ({"epoch_wise_filter": {(1, "5"): {}}}, r"'epoch_wise_filter': \(1, '5'\) is no pair of first"),
        ({"epoch_wise_filter": {(1, 2): {"max_mean": 1}}}, "there is no option 'max_mean'"),
        ({"audio": {"feature": "raw"}}, "audio.*there is no option 'feature'.\n  Did you mean 'features'"),
        ({"targets": {"class": "Words"}}, "vocabulary: there is no class 'Words'"),
    ],
)
def test_wrong_options_are_named(archive, opts, message):
    with pytest.raises(ConfigError, match=message):
        make(archive, **opts)


def test_segment_file_without_any_segment_is_named(archive, tmp_path):
    (tmp_path / "segments").write_text("a\nb\n")
    with pytest.raises(
        ConfigError, match=r"none of its 2 tags is in the data\.\n  It has tags such as 'a', the data has 'seq0'"
    ):
        make(archive, segment_file=str(tmp_path / "segments"))
