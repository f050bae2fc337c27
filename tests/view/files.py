"""Files of runs, as trainings leave them."""

import json
import struct

from returnn.engine.learning_rate_file import EpochData, write_learning_rate_file

PNG = (
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x02\x00\x00\x00\x90wS\xde\x00\x00\x00\x0cIDATx"
    b"\x9cc\xf8\xcf\xc0\x00\x00\x03\x01\x01\x00\xc9\xfe\x92\xef\x00\x00\x00\x00IEND\xaeB`\x82"
)
START = {"event": "start", "time": 1000.0, "pid": 7, "host": "here", "epoch": 1, "num_epochs": 2, "options": {}}
EPOCH = {
    "event": "epoch", "time": 1010.0, "epoch": 1, "learning_rate": 0.1, "scores": {"dev_score": 2.5, "dev_error": 0.5},
    "duration_s": 9.0, "data_wait_s": 1.0, "num_steps": 3, "num_seqs": 30, "memory_bytes": 10**9,
}  # fmt: skip
END = {"event": "end", "time": 1020.0}
SEARCH = {
    "event": "search", "time": 1030.0, "epoch": 1, "scores": ["WER 50%"],
    "samples": [{"tag": "seq-1", "hypothesis": "a x c", "reference": "a b c d"}],
}  # fmt: skip


def write_record(file, *lines):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))


def write_learning_rates(file, **scores):
    """:param scores: lists, by name"""
    file.parent.mkdir(parents=True, exist_ok=True)
    epochs = {
        i + 1: EpochData(learning_rate=0.1 / (i + 1), error=dict(zip(scores, values, strict=True)))
        for i, values in enumerate(zip(*scores.values(), strict=True))
    }
    write_learning_rate_file(file, epochs)


def varint(value):
    data = b""
    while value > 127:
        data += bytes([value & 127 | 128])
        value >>= 7
    return data + bytes([value])


def message(**fields):
    """:param fields: `f3=value`: whole number, float, text or bytes"""
    data = b""
    for name, value in fields.items():
        number = int(name[1:])
        if isinstance(value, int):
            data += varint(number << 3) + varint(value)
        elif isinstance(value, float):
            data += varint(number << 3 | 5) + struct.pack("<f", value)
        else:
            value = value.encode() if isinstance(value, str) else value
            data += varint(number << 3 | 2) + varint(len(value)) + value
    return data


def record(content):
    """:return: of an event file; its checksums are not looked at"""
    return struct.pack("<Q", len(content)) + b"\0\0\0\0" + content + b"\0\0\0\0"


def scalar_event(step, **values):
    """:param values: by tag"""
    summary = b"".join(message(f1=message(f1=tag, f2=float(value))) for tag, value in values.items())
    return record(message(f2=step, f5=summary))
