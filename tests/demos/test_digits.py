"""The data of the demo with attention, from recordings of digits."""

import ast
import importlib
import io
import os
import sys
import wave
import zipfile
from collections import Counter

import pytest

DEMO = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "demos")
WORDS = ["zero", "one", "two", "three"]


def recording(value, num_samples):
    """:return: content of a file whose samples all have the same value"""
    content = io.BytesIO()
    with wave.open(content, "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes(int(value).to_bytes(2, "little") * num_samples)
    return content.getvalue()


def write_part(folder, part, speakers, num_takes):
    """Archive and list as of the Free Spoken Digit Dataset: each sequence has two recordings of a speaker."""
    names = [f"{digit}_{speaker}_{take}" for speaker in speakers for take in range(num_takes) for digit in range(4)]
    entries = [
        {"text": WORDS[int(name[0])], "duration": 0.01, "file": f"{name}.wav", "seq_name": name} for name in names
    ]
    with zipfile.ZipFile(folder / f"fsdd-{part}.zip", "w") as file:
        file.writestr(f"fsdd-{part}.txt", repr(entries))
        for i, name in enumerate(names):
            file.writestr(f"fsdd-{part}/{name}.wav", recording(i, 80))
    lines = [";".join(names[i : i + 2]) for i in range(0, len(names), 2)]
    (folder / f"concat-{part}.seqlist.txt").write_text("\n".join(lines), encoding="utf8")
    return names


@pytest.fixture
def speech_data(monkeypatch, tmp_path):
    """:return: the module of the demo, with digits in a folder"""
    monkeypatch.setenv("DIGITS_DATA", str(tmp_path))
    monkeypatch.setattr(sys, "path", [os.path.join(DEMO, "attention_speech"), *sys.path])
    return importlib.import_module("speech_data")


def test_digits(speech_data, tmp_path):
    names = {
        "train": write_part(tmp_path, "train", ["ann", "bob"], 5),
        "test": write_part(tmp_path, "test", ["ann", "bob"], 1),
    }
    said = {}
    for split in ("train", "dev", "test"):
        filename = speech_data.archive(split, str(tmp_path))
        recorded = names["test" if split == "test" else "train"]
        said[split] = Counter()
        with zipfile.ZipFile(filename) as file:
            for entry in ast.literal_eval(file.read(f"digits-{split}.txt").decode()):
                with wave.open(io.BytesIO(file.read(f"digits-{split}/{entry['file']}"))) as audio:
                    samples = audio.readframes(audio.getnframes())
                values = [int.from_bytes(samples[i : i + 2], "little") for i in range(0, len(samples), 160)]
                parts = [recorded[value] for value in values]
                assert entry["text"] == " ".join(WORDS[int(name[0])] for name in parts)
                assert len({name.split("_")[1] for name in parts}) == 1  # one speaker
                said[split].update(parts)
    assert set(said["dev"].values()) == set(said["test"].values()) == {1}
    assert set(said["train"].values()) == {speech_data.num_orders()}
    assert set(said["test"]) == set(names["test"])
    assert said["train"].keys() | said["dev"].keys() == set(names["train"])
    assert not said["train"].keys() & said["dev"].keys()
