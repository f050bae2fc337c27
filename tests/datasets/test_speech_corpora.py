"""LibriSpeech, TIMIT, Bliss and enwik8, each with a tiny copy of its layout."""

from __future__ import annotations

import io
import sys
import wave
import zipfile

import numpy as np
import pytest

from returnn.datasets.core.errors import DataError
from returnn.datasets.core.registry import init_dataset
from returnn.datasets.generating import LibriSpeechCorpus, TimitDataset
from returnn.datasets.util.feature_extraction import ExtractAudioFeatures
from returnn.util.errors import ConfigError, MissingPackageError, UserError

from .corpus_cases import LINES, bliss, timit
from .corpus_checks import check_corpus_dataset, seqs_of_epoch


def wav(num_samples, seed=1):
    content = io.BytesIO()
    with wave.open(content, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes(np.random.RandomState(seed).randint(-3000, 3000, size=num_samples).astype("<i2").tobytes())
    return content.getvalue()


def write_librispeech(root, *, as_zip=False, in_folder=False, ending=".flac"):
    """Wav in files named .flac is read as well."""
    files = {}
    for subdir, speaker in [("train-clean-100", 19), ("train-clean-100", 26), ("train-other-500", 8), ("dev-clean", 7)]:
        lines = []
        for seq in range(3):
            name = f"{speaker}-{speaker + 100}-{seq:04}"
            files[f"{subdir}/{speaker}/{speaker + 100}/{name}{ending}"] = wav(4000 + 800 * seq, seed=speaker + seq)
            lines.append(f"{name} {'HELLO ' * (seq + 1)}WORLD {speaker}")
        files[f"{subdir}/{speaker}/{speaker + 100}/{speaker}-{speaker + 100}.trans.txt"] = "\n".join(lines).encode()
    for name, content in files.items():
        subdir = name.split("/")[0]
        if as_zip:
            root.mkdir(exist_ok=True)
            with zipfile.ZipFile(root / f"{subdir}.zip", "a") as archive:
                archive.writestr(f"LibriSpeech/{name}" if in_folder else name, content)
        else:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(content)
    return str(root)


def write_characters(path):
    path.write_text(repr({label: i for i, label in enumerate(["</s>", *"ABCDEFGHIJKLMNOPQRSTUVWXYZ 0123456789"])}))
    return str(path)


def librispeech(tmp_path, path, **options):
    chars = {"vocab_file": write_characters(tmp_path / "chars.txt"), "unknown_label": None, "seq_postfix": [0]}
    audio = {"features": "raw", "peak_normalization": False}
    return init_dataset(
        {"class": "LibriSpeechCorpus", "path": path, "prefix": "train", "audio": audio, "chars": chars, **options}
    )


@pytest.mark.parametrize(
    "layout",
    [{}, {"as_zip": True}, {"as_zip": True, "in_folder": True}, {"as_zip": True, "ending": ".flac.ogg"}],
    ids=str,
)
def test_librispeech(layout, tmp_path):
    path = write_librispeech(tmp_path / "corpus", **layout)
    options = {"use_zip": layout.get("as_zip", False), "use_ogg": "ending" in layout}

    def make(**kwargs):
        return librispeech(tmp_path, path, **options, **kwargs)

    check_corpus_dataset(make)
    dataset = make(seq_ordering="sorted")
    assert isinstance(dataset, LibriSpeechCorpus)
    dataset.init_seq_order(1)
    seqs = dict(seqs_of_epoch(dataset))
    assert set(seqs) == {
        f"{subdir}-{speaker}-{speaker + 100}-{seq:04}"
        for subdir, speaker in [("train-clean-100", 19), ("train-clean-100", 26), ("train-other-500", 8)]
        for seq in range(3)
    }
    data = seqs["train-clean-100-26-126-0001"]
    assert data["raw"].item() == "HELLO HELLO WORLD 26"
    assert len(data["data"]) == 4800
    assert dataset.transs["train-clean-100", 26, 126, 1] == "HELLO HELLO WORLD 26"
    assert dataset.serialize_data("classes", data["classes"][:5]) == "HELLO"


def test_librispeech_options(tmp_path):
    path = write_librispeech(tmp_path / "corpus")
    dataset = librispeech(tmp_path, path, prefix="dev", audio=None, orth_post_process="lowercase", chars=None)
    dataset.init_seq_order(1)
    assert {data["raw"].item() for _, data in seqs_of_epoch(dataset)} >= {"hello world 7"}
    assert dataset.name == "prefix:dev"
    subset = librispeech(tmp_path, path, fixed_random_subset=4)
    assert subset.get_total_num_seqs() == 4
    assert subset.get_all_tags() == librispeech(tmp_path, path, fixed_random_subset=4).get_all_tags()
    named = librispeech(tmp_path, path, seq_tag_format="%(speaker)i/%(seq)i")
    assert named.get_all_tags()[:2] == ["19/0", "19/1"]


def test_librispeech_by_epoch(tmp_path):
    path = write_librispeech(tmp_path / "corpus")
    epochs = {(1, 1): {"max_mean_len": 17, "use_new_filter": True}, (2, 2): {"subdirs": ["train-other-500"]}}
    dataset = librispeech(tmp_path, path, epoch_wise_filter=epochs)
    num_seqs = []
    for epoch in (1, 2, 3):
        dataset.init_seq_order(epoch)
        num_seqs.append(dataset.num_seqs)
    assert 0 < num_seqs[0] < 9
    assert num_seqs[1:] == [3, 9]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"prefix": "test"},
            "none of the folders in {path} starts with 'test'.\n  There are: dev-clean, train-clean-100,",
        ),
        ({"use_zip": True}, "none of the archives in {path} starts with 'train'.\n  There are: none."),
        ({"bpe": {}}, "only one of the options 'targets', 'chars' and 'bpe' is possible."),
        ({"use_cache_manager": True}, "option 'use_cache_manager' is only possible with 'use_zip'."),
    ],
)
def test_librispeech_errors(options, message, tmp_path):
    path = write_librispeech(tmp_path / "corpus")
    with pytest.raises(ConfigError) as info:
        librispeech(tmp_path, path, **options)
    assert message.format(path=path) in str(info.value)


def test_librispeech_missing_files(tmp_path):
    with pytest.raises(DataError, match=r"cannot be read \(No such file or directory\)"):
        librispeech(tmp_path, str(tmp_path / "nothing"))
    path = write_librispeech(tmp_path / "corpus")
    (tmp_path / "corpus/train-clean-100/19/119/19-119-0001.flac").unlink()
    dataset = librispeech(tmp_path, path)
    dataset.init_seq_order(1)
    with pytest.raises(DataError, match=r"cannot be read .*\n  File: .*/19-119-0001.flac"):
        seqs_of_epoch(dataset)


PHONES = ["h#", "sh", "iy", "hv", "ae", "dcl", "d", "q", "ao", "h#"]


def write_timit(root, *, upper=False):
    for part in ("train", "test"):
        for speaker in ("fcjf0", "mdac0"):
            for i, sentence in enumerate(["sa1", "si1027", "sx37", "sx127"]):
                name = f"{part}/dr1/{speaker}/{sentence}"
                name = name.upper() if upper else name
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.with_suffix(".WAV" if upper else ".wav").write_bytes(wav(4000 + 400 * i, seed=i))
                lines = "".join(f"{400 * j} {400 * (j + 1)} {phone}\n" for j, phone in enumerate(PHONES[: 10 - i]))
                path.with_suffix(".PHN" if upper else ".phn").write_text(lines)
    return str(root)


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("options", [{}, {"num_phones": 39}, {"preload": True}], ids=str)
def test_timit(upper, options, tmp_path):
    path = write_timit(tmp_path / "timit", upper=upper)

    def make(**kwargs):
        return init_dataset({"class": "TimitDataset", "timit_dir": path, **options, **kwargs})

    check_corpus_dataset(make)
    dataset = make(train=False)
    dataset.init_seq_order(1)
    seqs = seqs_of_epoch(dataset)
    assert len(seqs) == 6  # without SA
    assert dataset.num_inputs == 40
    phones = [dataset.labels["classes"][i] for i in seqs[0][1]["classes"]]
    if options.get("num_phones") == 39:
        assert phones == ["sil", "sh", "iy", "hh", "ae", "sil", "d", "aa"]
    else:
        assert phones == PHONES[:9]


def test_timit_phone_sets():
    assert [len(TimitDataset.get_labels(num)) for num in (61, 48, 39)] == [61, 48, 39]
    for source, target in [(61, 39), (61, 48), (48, 39)]:
        source_labels, target_labels = TimitDataset.get_labels(source), TimitDataset.get_labels(target)
        mapping = TimitDataset.get_label_map(source, target)
        assert {target_labels[i] for i in mapping.values() if i is not None} == set(target_labels)
        assert [source_labels[i] for i, label in mapping.items() if label is None] in ([], ["q"])
    with pytest.raises(ConfigError, match="option 'num_phones': 40 is not possible, only 61, 48 or 39"):
        TimitDataset.get_labels(40)


def test_timit_errors(tmp_path):
    path = write_timit(tmp_path / "timit")
    with pytest.raises(DataError, match="has no folder 'train'"):
        init_dataset({"class": "TimitDataset", "timit_dir": str(tmp_path)})
    (tmp_path / "timit/train/dr1/fcjf0/sx37.phn").write_text("0 400 xx\n")
    dataset = init_dataset({"class": "TimitDataset", "timit_dir": path})
    dataset.init_seq_order(1)
    message = r"data key 'classes' of sequence 'dr1/fcjf0/sx37': there is no phone 'xx'\.\n  File: .*sx37.phn"
    with pytest.raises(DataError, match=message):
        seqs_of_epoch(dataset)


def test_bliss(tmp_path):
    (tmp_path / "a.wav").write_bytes(wav(16000))
    segments = "".join(
        f'<segment name="{i}" start="{i * 0.25}" end="{(i + 1) * 0.25}"><orth>{text}</orth></segment>'
        for i, text in enumerate(["hello", "big world", "hello world", "world"])
    )
    (tmp_path / "corpus.xml").write_text(
        f'<corpus name="c"><recording name="r" audio="a.wav">{segments}</recording></corpus>'
    )
    (tmp_path / "vocab.txt").write_text(repr({"hello": 0, "world": 1, "big": 2, "UNK": 3}))

    def make(**kwargs):
        files = {"path": str(tmp_path / "corpus.xml"), "vocab_file": str(tmp_path / "vocab.txt")}
        return init_dataset({"class": "BlissDataset", **files, "num_feature_filters": 13, **kwargs})

    check_corpus_dataset(make)
    dataset = make()
    dataset.init_seq_order(1)
    seqs = dict(seqs_of_epoch(dataset))
    assert seqs["c/r/1"]["classes"].tolist() == [2, 1]
    assert all(20 <= len(data["data"]) <= 26 for data in seqs.values())


@pytest.fixture(params=["BlissDataset", "TimitDataset"])
def make_corpus(request, tmp_path):
    """Function from options to one epoch of a corpus with MFCC features, by default 40 each 10 ms."""
    options = {"BlissDataset": bliss, "TimitDataset": timit}[request.param](tmp_path)
    options.pop("num_feature_filters", None)

    def epoch_of(epoch=1, **kwargs):
        dataset = init_dataset({**options, **kwargs})
        dataset.init_seq_order(epoch)
        seqs = dict(seqs_of_epoch(dataset))
        assert (
            {data["data"].shape[1] for data in seqs.values()} == {dataset.num_inputs} == {dataset.get_data_dim("data")}
        )
        return seqs

    return epoch_of


def test_windows_of_features(make_corpus):
    plain = make_corpus()
    longer = make_corpus(feature_window_len=0.05)
    denser = make_corpus(feature_step_len=0.005)
    for tag, data in plain.items():
        assert longer[tag]["data"].shape == data["data"].shape
        assert not np.allclose(longer[tag]["data"], data["data"])
        assert abs(len(denser[tag]["data"]) - 2 * len(data["data"])) <= 1
        np.testing.assert_allclose(denser[tag]["data"][::2, 0], data["data"][:, 0], rtol=1e-5)  # the energy
    for option in ("window_len", "step_len"):
        with pytest.raises(ConfigError, match=f"option '{option}': expected a positive number, got 0"):
            make_corpus(**{f"feature_{option}": 0})


def test_features_with_derivatives(make_corpus):
    plain, with_delta = make_corpus(num_feature_filters=5), make_corpus(num_feature_filters=5, with_delta=True)
    for tag, data in plain.items():
        np.testing.assert_array_equal(with_delta[tag]["data"][:, :5], data["data"])
        assert with_delta[tag]["data"].shape == (len(data["data"]), 10)


def test_normalized_features(make_corpus, tmp_path):
    plain = make_corpus(num_feature_filters=3)
    mean, std_dev = [1.0, 2.0, 3.0], [2.0, 4.0, 0.5]
    (tmp_path / "mean").write_text("1\n2\n3\n")
    for given in (mean, np.array(mean), str(tmp_path / "mean")):
        found = make_corpus(num_feature_filters=3, norm_mean=given, norm_std_dev=std_dev)
        for tag, data in plain.items():
            expected = (data["data"] - np.array(mean)) / np.array(std_dev)
            np.testing.assert_allclose(found[tag]["data"], expected, rtol=1e-4, atol=1e-4)
    for data in make_corpus(norm_mean="per_seq", norm_std_dev="per_seq").values():
        np.testing.assert_allclose(data["data"].mean(0), 0, atol=1e-3)
        np.testing.assert_allclose(data["data"].std(0), 1, atol=1e-3)
    for option in ("norm_mean", "norm_std_dev"):
        with pytest.raises(ConfigError, match=f"option '{option}'"):
            make_corpus(num_feature_filters=3, **{option: [1.0, 2.0]})


def test_bliss_with_features_and_labels_of_other_kinds(tmp_path):
    options = bliss(tmp_path)
    options.pop("num_feature_filters")

    def epoch_of(**more):
        dataset = init_dataset({**options, **more})
        dataset.init_seq_order(1)
        return dict(seqs_of_epoch(dataset))

    plain = epoch_of()
    others = [
        epoch_of(audio={"features": "log_mel_filterbank"}),
        epoch_of(audio=ExtractAudioFeatures(features="log_mel_filterbank")),
        epoch_of(audio={"sample_rate": 16000}, num_feature_filters=5),
    ]
    assert [next(iter(found.values()))["data"].shape[1] for found in (plain, *others)] == [40, 40, 40, 5]
    for tag, data in plain.items():
        np.testing.assert_array_equal(others[0][tag]["data"], others[1][tag]["data"])
        assert not np.allclose(others[0][tag]["data"], data["data"])
    vocab = options.pop("vocab_file")
    with pytest.raises(ConfigError, match="option 'vocab_file' or 'targets' is missing"):
        init_dataset(options)
    bytes_of_text = {"class": "Utf8ByteTargets"}
    with pytest.raises(ConfigError, match="'vocab_file' and 'bpe_file' are not possible with 'targets'"):
        init_dataset({**options, "vocab_file": vocab, "targets": bytes_of_text})
    for i, data in enumerate(epoch_of(targets=bytes_of_text).values()):
        assert bytes(data["classes"].astype("uint8")).decode() == LINES[i]


def test_bliss_with_parts_of_words(tmp_path):
    vocab, codes = tmp_path / "bpe.vocab", tmp_path / "codes"
    options = bliss(tmp_path)
    vocab.write_text(repr({label: i for i, label in enumerate(["th@@", "e", "i@@", "s", "a", "hou@@", "se", "UNK"])}))
    codes.write_text("#version: 0.2\nt h\nh o\nho u\ns e</w>\n")
    dataset = init_dataset({**options, "vocab_file": str(vocab), "bpe_file": str(codes)})
    dataset.init_seq_order(1)
    assert dataset.get_data_dim("classes") == 8
    for i, (_, data) in enumerate(seqs_of_epoch(dataset)):
        assert dataset.serialize_data("classes", data["classes"]).replace("@@ ", "") == LINES[i]
        assert len(data["classes"]) == sum(1 if word == "a" else 2 for word in LINES[i].split())


def timit_epoch(tmp_path, epoch=1, **options):
    dataset = init_dataset({**timit(tmp_path), **options})
    dataset.init_seq_order(epoch)
    return dataset, [data["data"] for _, data in seqs_of_epoch(dataset)]


@pytest.mark.parametrize(("options", "dim"), [
    ({"features": "log_mel_filterbank", "num_feature_filters": 20}, 20),
    ({"features": "raw", "num_feature_filters": 1}, 1),
    ({"num_feature_filters": 13, "with_delta": True}, 26),
])  # fmt: skip
def test_timit_features(options, dim, tmp_path):
    dataset, seqs = timit_epoch(tmp_path, **options)
    assert dataset.num_inputs == dim
    assert {data.shape[1] for data in seqs} == {dim}
    assert all(np.isfinite(data).all() for data in seqs)
    with pytest.raises(ConfigError, match="'num_feature_filters' is 40, but the features 'raw' have only 1 per frame"):
        timit_epoch(tmp_path, features="raw")


def test_timit_audio_that_is_changed_by_chance(tmp_path):
    _, plain = timit_epoch(tmp_path)
    for permute in (True, {"rnd_scale_lower": 0.1, "rnd_scale_upper": 0.5}, {"rnd_zoom_switch": 1.0}):
        options = {"random_permute_audio": permute}
        _, first = timit_epoch(tmp_path, **options)
        assert all(a.shape != b.shape or not np.allclose(a, b) for a, b in zip(plain, first, strict=True))
        for a, b in zip(first, timit_epoch(tmp_path, **options)[1], strict=True):
            np.testing.assert_array_equal(a, b)
        _, second = timit_epoch(tmp_path, epoch=2, **options)
        assert any(a.shape != b.shape or not np.allclose(a, b) for a, b in zip(first, second, strict=True))
    for a, b in zip(plain, timit_epoch(tmp_path, random_permute_audio=False)[1], strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(ConfigError, match="there is no option 'rnd_zoom'"):
        timit_epoch(tmp_path, random_permute_audio={"rnd_zoom": 1.0})
    with pytest.raises(ConfigError, match="with 'random_permute_audio', 'preload' is not possible"):
        timit_epoch(tmp_path, random_permute_audio=True, preload=True)


class FakeSoundDevice:
    """As much of `sounddevice` as is used."""

    class PortAudioError(Exception):
        pass

    def __init__(self, error=None):
        self.played, self.error = [], error

    def play(self, audio, sample_rate, *, blocking):
        assert blocking
        if self.error:
            raise self.error
        self.played.append((len(audio), sample_rate))


def test_timit_recordings_are_played(tmp_path, monkeypatch):
    device = FakeSoundDevice()
    monkeypatch.setitem(sys.modules, "sounddevice", device)
    _, plain = timit_epoch(tmp_path)
    assert not device.played
    _, seqs = timit_epoch(tmp_path, demo_play_audio=True)
    assert sorted(device.played) == [(2400 + 400 * (i // 2), 8000) for i in range(6)]
    for a, b in zip(plain, seqs, strict=True):
        np.testing.assert_array_equal(a, b)


def test_timit_recordings_that_cannot_be_played(tmp_path, monkeypatch):
    device = FakeSoundDevice(FakeSoundDevice.PortAudioError("Error querying device -1"))
    monkeypatch.setitem(sys.modules, "sounddevice", device)
    with pytest.raises(UserError, match="option 'demo_play_audio': no audio can be played: Error querying device -1"):
        timit_epoch(tmp_path, demo_play_audio=True)
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    with pytest.raises(MissingPackageError, match="'sounddevice' is needed for the option 'demo_play_audio'"):
        timit_epoch(tmp_path, demo_play_audio=True)
    monkeypatch.delitem(sys.modules, "sounddevice")
    (tmp_path / "package").mkdir()
    (tmp_path / "package/sounddevice.py").write_text("raise OSError('PortAudio library not found')\n")
    monkeypatch.syspath_prepend(str(tmp_path / "package"))
    with pytest.raises(UserError, match="no audio can be played: PortAudio library not found"):
        timit_epoch(tmp_path, demo_play_audio=True)


def test_enwik8(tmp_path):
    text = b"<page>abc, def</page>" * 200
    with zipfile.ZipFile(tmp_path / "enwik8.zip", "w") as archive:
        archive.writestr("enwik8", text)

    def make(**kwargs):
        return init_dataset(
            {"class": "Enwik8Corpus", "path": str(tmp_path), "subset": "train", "seq_len": 50, **kwargs}
        )

    check_corpus_dataset(make)
    dataset = make()
    dataset.init_seq_order(1)
    seqs = [data for _, data in seqs_of_epoch(dataset)]
    assert len(seqs) == 75
    assert "".join(dataset.serialize_data("delayed", data["delayed"]) for data in seqs) == text[: 75 * 50].decode()
    np.testing.assert_array_equal(seqs[3]["data"][:-1], seqs[3]["delayed"][1:])
    batched = make(batch_num_seqs=4)
    batched.init_seq_order(1)
    seqs = [data for _, data in seqs_of_epoch(batched)]
    np.testing.assert_array_equal(seqs[1]["data"][-1:], seqs[5]["delayed"][:1])
    assert make(subset="test").get_total_num_seqs() == 4
    for name, old in (("training", "train"), ("validation", "valid")):
        np.testing.assert_array_equal(make(subset=name)._bytes, make(subset=old)._bytes)
    assert make(subsubset=201).get_total_num_seqs() == 4


def test_enwik8_errors(tmp_path):
    options = {"class": "Enwik8Corpus", "path": str(tmp_path), "seq_len": 50}
    with pytest.raises(DataError, match="there is no such file"):
        init_dataset({**options, "subset": "train"})
    with pytest.raises(ConfigError, match="there is no subset 'dev'"):
        init_dataset({**options, "subset": "dev"})
    (tmp_path / "enwik8").write_bytes(b"abc" * 100)
    with pytest.raises(ConfigError, match="too few bytes, 15, for sequences of 50"):
        init_dataset({**options, "subset": "test"})
