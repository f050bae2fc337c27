"""One small example of each data set class that reads a corpus in files, or passes on what others read."""

from __future__ import annotations

import io
import pickle
import wave
import zipfile

import h5py
import numpy as np

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
