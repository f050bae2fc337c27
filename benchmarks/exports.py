"""
What exported models cost, and whether they compute the same: python -m benchmarks.exports.

Models with random parameters are exported by the commands of `docs/tools.md`, in each format, and run by the scripts of
`demos/export`, on their own. Seconds are those of whole commands, which import TensorFlow or PyTorch, too. The
difference is the largest one to what the toolkit computes from the same input, for labels the number of those that are
others. TensorFlow Lite takes one sequence at a time, so all formats get one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy

ROOT = Path(__file__).resolve().parent.parent
NUM_FRAMES, NUM_FEATURES = 400, 80

_CTC = """
behavior_version = 30
extern_data = {"data": {"dim": 80}, "classes": {"dim": 79, "sparse": True}}
network, source = {}, ["data"]
for i in range(3):
    for direction in (1, -1):
        network[f"lstm{i}{direction}"] = {
            "class": "rec", "unit": "nativelstm2", "n_out": 256, "direction": direction, "from": source}
    source = [f"lstm{i}1", f"lstm{i}-1"]
network["output"] = {"class": "softmax", "from": source, "n_out": 80, "target": "classes", "loss": "ctc"}
model = "lstms/net"
"""
_ATTENTION = """
behavior_version = 30
LABELS = ["<s>", *"abcdefghijklmnopqrstuvwxyz"]
LETTERS = {"class": "Vocabulary", "vocab_file": None, "labels": LABELS, "unknown_label": None}
extern_data = {"data": {"dim": 80}, "classes": {"vocab": LETTERS, "available_for_inference": False}}
step = {
    "output": {"class": "choice", "from": "probabilities", "target": "classes", "beam_size": 12, "initial_output": 0},
    "end": {"class": "compare", "from": "output", "value": 0},
    "embedded": {"class": "linear", "activation": None, "from": "prev:output", "n_out": 128},
    "state": {"class": "rnn_cell", "unit": "standardlstm", "from": ["embedded", "prev:found"], "n_out": 512},
    "query": {"class": "linear", "activation": None, "with_bias": False, "from": "state", "n_out": 256},
    "sum": {"class": "combine", "kind": "add", "from": ["base:keys", "query"]},
    "tanh": {"class": "activation", "activation": "tanh", "from": "sum"},
    "energy": {"class": "linear", "activation": None, "with_bias": False, "from": "tanh", "n_out": 1},
    "weights": {"class": "softmax_over_spatial", "from": "energy"},
    "found": {"class": "generic_attention", "weights": "weights", "base": "base:encoder"},
    "probabilities": {"class": "softmax", "from": ["state", "found"], "target": "classes", "loss": "ce"},
}
network = {
    "forward": {"class": "rec", "unit": "nativelstm2", "n_out": 256, "direction": 1, "from": "data"},
    "backward": {"class": "rec", "unit": "nativelstm2", "n_out": 256, "direction": -1, "from": "data"},
    "encoder": {"class": "copy", "from": ["forward", "backward"]},
    "keys": {"class": "linear", "activation": None, "from": "encoder", "n_out": 256},
    "output": {"class": "rec", "unit": step, "target": "classes", "from": [], "max_seq_len": 40},
    "decision": {"class": "decide", "from": "output", "target": "classes"},
}
search_output_layer = "decision"
model = "decoder/net"
"""
_CONFORMER = """
import returnn.frontend as rf
from returnn.frontend.encoder.conformer import ConformerEncoder, ConformerConvSubsample
from returnn.tensor import Dim, batch_dim
behavior_version = 30
backend = "torch"
time_dim, features, labels = Dim(None, name="time"), Dim(80, name="features"), Dim(80, name="labels")
extern_data = {"data": {"dims": [batch_dim, time_dim, features], "feature_dim": features}}
class Model(rf.Module):
    def __init__(self):
        super().__init__()
        front = ConformerConvSubsample(features, out_dims=[Dim(32, name="c0"), Dim(64, name="c1")],
            filter_sizes=[(3, 3), (3, 3)], pool_sizes=[(1, 2), (1, 2)], strides=[(1, 1), (2, 1)])
        self.encoder = ConformerEncoder(features, Dim(256, name="model"), ff_dim=Dim(1024, name="inner"),
            input_layer=front, num_layers=6, num_heads=4)
        self.output = rf.Linear(self.encoder.out_dim, labels)
def get_model(*, epoch, step, **kwargs):
    return Model()
def train_step(*, model, extern_data, **kwargs):
    raise Exception("this model is not trained")
def forward_step(*, model, extern_data, **kwargs):
    encoded, frames = model.encoder(extern_data["data"], in_spatial_dim=time_dim)
    out = rf.log_softmax(model.output(encoded), axis=labels)
    rf.get_run_ctx().mark_as_output(out, "output", dims=[batch_dim, frames, labels])
model = "conformer/net"
"""
_FORWARD = """
import sys, numpy, returnn
frames = list(numpy.load("in.npz")["data"])
model = returnn.load(sys.argv[1], load=sys.argv[2])
if sys.argv[3] == "decode":
    letters = ["<s>", *"abcdefghijklmnopqrstuvwxyz"]
    values = [letters.index(letter) for letter in model.decode(frames)[0].split()]
else:
    values = model.forward(frames)[0]
numpy.savez("wanted.npz", values)
"""


@dataclass(frozen=True)
class Model:
    """A config, and how it is exported."""

    title: str
    name: str
    config: str
    checkpoint: str
    formats: tuple[tuple[str, str, str], ...]  # of each: name, file or folder, script of `demos/export`
    options: tuple[str, ...] = ()
    output: str = "output"


MODELS = [
    Model(
        "six LSTMs, 3 in each direction", "lstms", _CTC, "lstms/net.000",
        (
            ("SavedModel", "lstms", "run_saved_model.py"), ("frozen graph", "lstms.pb", "run_frozen_graph.py"),
            ("TensorFlow Lite", "lstms.tflite", "run_tflite.py"),
        ),
    ),
    Model(
        "search with attention, beam of 12", "decoder", _ATTENTION, "decoder/net.000",
        (("SavedModel", "decoder", "run_saved_model.py"), ("frozen graph", "decoder.pb", "run_frozen_graph.py")),
        ("--search", "1"), "decision",
    ),
    Model(
        "Conformer, 6 layers", "conformer", _CONFORMER, "conformer/net.000.pt",
        (("ONNX", "conformer.onnx", "run_onnx.py"),),
    ),
]  # fmt: skip


def run(folder: Path, *command: str | Path) -> float:
    """
    :param folder: where it runs
    :param command: of Python; what it prints is shown only if it fails
    :return: seconds
    """
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}
    started = time.monotonic()
    result = subprocess.run([sys.executable, *command], cwd=folder, env=env, capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{result.stdout[-2000:]}\n{result.stderr[-4000:]}")
    return time.monotonic() - started


def size_of(path: Path) -> int:
    """:return: bytes of a file, or of all files in a folder"""
    return sum(file.stat().st_size for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file())


def difference(wanted: numpy.ndarray, found: numpy.ndarray) -> str:
    """:return: of one sequence: the largest one, or how many labels are others"""
    if wanted.shape != found.shape:
        return f"of shape {found.shape} in place of {wanted.shape}"
    if found.dtype.kind == "i":
        return f"{numpy.count_nonzero(wanted != found)} of {wanted.size} labels"
    return f"{numpy.abs(wanted - found).max():.1g}"


def measure(model: Model, folder: Path) -> None:
    """Prints a row of the table for each format."""
    config = folder / f"{model.name}.config"
    config.write_text("#!rnn.py" + model.config, encoding="utf8")
    frames = numpy.random.RandomState(1).normal(size=(1, NUM_FRAMES, NUM_FEATURES)).astype("float32")
    numpy.savez(folder / "in.npz", **{"data": frames, "data:size1": [NUM_FRAMES]})
    run(folder, ROOT / "rnn.py", config.name, "++task", "initialize_model")
    run(folder, "-c", _FORWARD, config.name, model.checkpoint, "decode" if model.output == "decision" else "forward")
    wanted = numpy.load(folder / "wanted.npz")["arr_0"]
    parameters = sum(size_of(path) for path in folder.glob(f"{model.checkpoint}*"))
    for name, file, script in model.formats:
        onnx = name == "ONNX"
        tool = ROOT / "tools" / ("torch_export_to_onnx.py" if onnx else "export-model.py")
        target = f"exported-{file}"
        checkpoint = [model.checkpoint] if onnx else ["--checkpoint", model.checkpoint]
        exported = run(folder, tool, config.name, *checkpoint, target, *model.options)
        ran = run(folder, ROOT / "demos" / "export" / script, target, "in.npz", "out.npz")
        found = dict(numpy.load(folder / "out.npz"))
        value = found[model.output][0]
        if sizes := [key for key in found if key.startswith(f"{model.output}:size")]:
            value = value[: found[sizes[0]][0]]
        row = [model.title, name, f"{parameters / 1e6:.1f} MB", f"{size_of(folder / target) / 1e6:.1f} MB"]
        print("|", " | ".join([*row, f"{exported:.0f} s", f"{ran:.1f} s", difference(wanted, value)]), "|", flush=True)


def main() -> None:
    """Prints the table."""
    print("| model | format | checkpoint | exported | to export | to run | difference |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        for model in MODELS:
            measure(model, Path(folder))


if __name__ == "__main__":
    main()
