"""One small example of each data set class that reads a corpus in files, or passes on what others read."""

from __future__ import annotations

import io
import pickle
import sys
import wave
import zipfile

import h5py
import numpy as np

from tests.datasets.stand_ins import FakeTable
from tests.datasets.util.test_rasr_archive import ALLOPHONES, write_alignments, write_features

RATE = 8000
WORDS = ["the", "house", "a", "is"]
LINES = [" ".join(WORDS[(i + j) % 4] for j in range(1 + i * 3 % 5)) for i in range(11)]
_VOCAB = {"class": "Vocabulary", "vocab_file": None, "labels": WORDS}
_AUDIO = {"features": "raw", "peak_normalization": False, "sample_rate": RATE}


def wav(num_samples):
    content = io.BytesIO()
    with wave.open(content, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        samples = np.random.RandomState(num_samples).randint(-3000, 3000, size=num_samples)
        file.writeframes(samples.astype("<i2").tobytes())
    return content.getvalue()


def write(path, content):
    """:return: name of the file. One that is there is left alone, as somebody may read it"""
    if path.exists():
        return str(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def write_text(path):
    return write(path, "".join(f"{line}\n" for line in LINES))


def lm(tmp_path):
    symbols = write(tmp_path / "symbols", "\n".join(["[START]", "[END]", "[UNKNOWN]", *WORDS]))
    return {
        "class": "LmDataset",
        "corpus_file": write_text(tmp_path / "text"),
        "orth_symbols_file": symbols,
        "word_based": True,
    }


def translation(tmp_path, cls="TranslationDataset", **options):
    for side in ("source", "target"):
        write_text(tmp_path / f"{side}.train")
        words = ["</s>", "<unk>", *WORDS]
        write(tmp_path / f"{side}.vocab.pkl", pickle.dumps({word: i for i, word in enumerate(words)}))
    return {"class": cls, "path": str(tmp_path), "file_postfix": "train", "target_postfix": " </s>", **options}


def translation_factors(tmp_path):
    for side, factor in (("source", "pos"), ("target", "case")):
        lines = [" ".join(f"{word}|{'xy'[i % 2]}" for i, word in enumerate(line.split())) for line in LINES]
        write(tmp_path / f"{side}.train", "".join(f"{line}\n" for line in lines))
        vocab = f"{side}.{factor}.vocab.pkl" if side == "source" else f"{factor}.vocab.pkl"
        write(tmp_path / vocab, pickle.dumps({"</s>": 0, "<unk>": 1, "x": 2, "y": 3}))
    factors = {"source_factors": ["pos"], "target_factors": ["case"], "target_postfix": ""}
    return translation(tmp_path, "TranslationFactorsDataset", **factors)


def confusion_networks(tmp_path):
    lines = [
        f"__ALT__ {line.replace(' ', '|0.75__the|0.25 ')}|1\n" if i % 2 else f"{line}\n" for i, line in enumerate(LINES)
    ]
    write(tmp_path / "source.train", "".join(lines))
    return translation(tmp_path, "ConfusionNetworkDataset", max_density=2)


def hugging_face_table():
    sizes = [100 + 10 * (i * 5 % 7) for i in range(len(LINES))]
    audio = [{"array": np.arange(size) / 1000, "sampling_rate": RATE} for size in sizes]
    return FakeTable({"id": [f"row{i}" for i in range(len(LINES))], "text": LINES, "audio": audio, "size": sizes})


def hugging_face(_tmp_path):
    return {
        "class": "HuggingFaceDataset",
        "dataset_opts": hugging_face_table,
        "data_format": {
            "data": {"shape": (None, 1), "dtype": "float32"},
            "text": {"dtype": "int32", "vocab": {"vocab_file": None, "labels": WORDS}},
        },
        "rename_columns": {"audio": "data"},
        "sorting_seq_len_column": "size",
    }


def rasr(_tmp_path):
    return {"class": "ExternSprintDataset", "sprintTrainerExecPath": sys.executable, "sprintConfigStr": ""}


def rasr_caches(tmp_path):
    features = tmp_path / "features"
    if not features.exists():
        write_features(features, num=6)
    alignments = {f"corpus/seq{i}": ([1, 1, 4, 0] * 5)[: i + 1] for i in range(6)}
    aligned = tmp_path / "align"
    if not aligned.exists():
        write_alignments(aligned, alignments)
    labeling = {
        "silence_phone": "si",
        "allophone_file": write(tmp_path / "allophones", "\n".join(ALLOPHONES)),
        "state_tying_file": write(tmp_path / "tying", "si{#+#}@i@f.0 2\na{#+b}@i.0 0\na{#+b}@i.1 1\n"),
    }
    data = {
        "data": {"filename": str(features)},
        "classes": {"filename": str(aligned), "allophone_labeling": labeling},
    }
    return {"class": "SprintCacheDataset", "data": data}


def text_dict(tmp_path):
    content = repr({f"s{i}": line for i, line in enumerate(LINES)}).replace(", 's", ",\n's")
    return {
        "class": "TextDictDataset",
        "filename": write(tmp_path / "out.py", content),
        "vocab": _VOCAB,
        "item_format": "single",
    }


def ogg_zip(tmp_path):
    path = tmp_path / "train.ogg.zip"
    sizes = [800 + 100 * (i * 5 % 7) for i in range(len(LINES))]
    seqs = [
        {"text": line, "duration": size / RATE, "file": f"{i}.wav", "seq_name": f"seq{i}"}
        for i, (line, size) in enumerate(zip(LINES, sizes, strict=True))
    ]
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        file.writestr("train.ogg.txt", "[\n" + ",\n".join(map(repr, seqs)) + "\n]\n")
        for seq, size in zip(seqs, sizes, strict=True):
            file.writestr(f"train.ogg/{seq['file']}", wav(size))
    write(path, content.getvalue())
    return {"class": "OggZipDataset", "path": str(path), "audio": _AUDIO, "targets": _VOCAB}


def raw_wav(tmp_path):
    files = [write(tmp_path / f"{i}.wav", wav(800 + 100 * (i * 5 % 7))) for i in range(6)]
    options = {"listFile": write(tmp_path / "list", "\n".join(files)), "frameLength": 100, "frameShift": 40}
    return {"class": "RawWavDataset", **options}


def librispeech(tmp_path):
    for speaker in (19, 26):
        folder = tmp_path / f"train-clean-100/{speaker}/1"
        names = [f"{speaker}-1-{i:04}" for i in range(3)]
        for i, name in enumerate(names):
            write(folder / f"{name}.flac", wav(1000 + 100 * i))
        write(folder / f"{speaker}-1.trans.txt", "\n".join(f"{name} {LINES[i]}" for i, name in enumerate(names)))
    return {
        "class": "LibriSpeechCorpus",
        "path": str(tmp_path),
        "prefix": "train",
        "audio": _AUDIO,
        "targets": _VOCAB,
    }


def timit(tmp_path):
    for speaker in ("fcjf0", "mdac0"):
        for i, sentence in enumerate(["si1027", "sx37", "sx127"]):
            name = f"train/dr1/{speaker}/{sentence}"
            write(tmp_path / f"{name}.wav", wav(2400 + 400 * i))
            write(tmp_path / f"{name}.phn", "".join(f"{400 * j} {400 * (j + 1)} iy\n" for j in range(6 + i)))
    return {"class": "TimitDataset", "timit_dir": str(tmp_path)}


def nltk_timit(tmp_path):
    for speaker in range(4):
        for i, sentence in enumerate(["si1027", "sx37"]):
            name = f"corpora/timit/dr1-f{speaker}/{sentence}"
            write(tmp_path / f"{name}.wav", wav(2400 + 400 * i))
            write(tmp_path / f"{name}.phn", "".join(f"{400 * j} {400 * (j + 1)} iy\n" for j in range(6 + i)))
    return {"class": "NltkTimitDataset", "nltk_download_dir": str(tmp_path)}


def bliss(tmp_path):
    write(tmp_path / "a.wav", wav(RATE * 2))
    segments = "".join(
        f'<segment name="{i}" start="{start}" end="{start + 0.1 + i % 3 * 0.05}"><orth>{LINES[i]}</orth></segment>'
        for i, start in enumerate(0.25 * i for i in range(6))
    )
    corpus = f'<corpus name="c"><recording name="r" audio="a.wav">{segments}</recording></corpus>'
    vocab = write(tmp_path / "vocab.txt", repr({word: i for i, word in enumerate([*WORDS, "UNK"])}))
    return {
        "class": "BlissDataset",
        "path": write(tmp_path / "corpus.xml", corpus),
        "vocab_file": vocab,
        "num_feature_filters": 13,
    }


def enwik8(tmp_path):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("enwik8", b"<page>abc, def</page>" * 30)
    write(tmp_path / "enwik8.zip", content.getvalue())
    return {"class": "Enwik8Corpus", "path": str(tmp_path), "subset": "train", "seq_len": 50}


def stereo_hdf(tmp_path, cls="StereoHdfDataset"):
    rng = np.random.RandomState(1)
    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        for group, dim in (("inputs", 3), ("outputs", 2)):
            for i in range(6):
                file[f"{group}/seq{i}"] = rng.normal(size=(i * 5 % 6 + 2, dim))
    return {"class": cls, "hdfFile": write(tmp_path / "stereo.hdf", content.getvalue())}


CORPUS_CASES = {
    "LmDataset": lm,
    "TranslationDataset": translation,
    "TranslationFactorsDataset": translation_factors,
    "ConfusionNetworkDataset": confusion_networks,
    "HuggingFaceDataset": hugging_face,
    "NltkTimitDataset": nltk_timit,
    "ExternSprintDataset": rasr,
    "SprintCacheDataset": rasr_caches,
    "TextDictDataset": text_dict,
    "OggZipDataset": ogg_zip,
    "RawWavDataset": raw_wav,
    "LibriSpeechCorpus": librispeech,
    "TimitDataset": timit,
    "BlissDataset": bliss,
    "Enwik8Corpus": enwik8,
    "StereoHdfDataset": stereo_hdf,
    "DatasetWithTimeContext": lambda tmp_path: stereo_hdf(tmp_path, "DatasetWithTimeContext"),
}
