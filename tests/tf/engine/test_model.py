"""`returnn.load`: a model in Python, as `docs/python.md` shows it."""

import re
import wave
from pathlib import Path

import numpy
import pytest
import tensorflow as tf

import returnn
import returnn.__main__ as rnn
from returnn.config import set_global_config
from returnn.log import log
from returnn.util.behavior_version import BehaviorVersion
from returnn.util.errors import UserError
from returnn.util.system.warn_once import forget_shown

ROOT = Path(returnn.__root_dir__)
CONFIG = """#!rnn.py
behavior_version = 30
audio = {"features": "log_mel_filterbank", "num_feature_filters": 9, "sample_rate": 8000}
dev = {"class": "OggZipDataset", "path": "none.zip", "audio": audio, "targets": None}
labels = {"class": "CharacterTargets", "vocab_file": None, "labels": ["a", "b"], "unknown_label": None}
extern_data = {"data": {"dim": 9}, "classes": {"dim": 2, "sparse": True, "vocab": labels}}
network = {
    "hidden": {"class": "rec", "unit": "lstm", "n_out": 4, "from": "data"},
    "output": {"class": "softmax", "n_out": 3, "from": "hidden", "target": "classes", "loss": "ctc"},
    "decision": {"class": "ctc_decode", "from": "output", "target": "classes", "only_on_search": True},
}
search_output_layer = "decision"
search_metrics = ["wer"]
model = "model/net"
max_seqs = 2
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo.config").write_text(CONFIG)
    BehaviorVersion.reset()
    assert rnn.main(["rnn.py", "demo.config", "++task", "initialize_model", "-v", "1"]) == 0
    for file in (tmp_path / "model").glob("net.000.*"):
        file.rename(str(file).replace(".000.", ".001."))
    for name, seed in [("a.wav", 1), ("b.wav", 2)]:
        with wave.open(name, "wb") as file:
            file.setparams((1, 2, 8000, 0, "NONE", ""))
            file.writeframes(numpy.random.RandomState(seed).randint(-9000, 9000, 4000).astype("int16").tobytes())
    yield tmp_path
    BehaviorVersion.reset()
    set_global_config(None)
    log.initialize(verbosity=[5])
    tf.compat.v1.reset_default_graph()


def test_the_page_runs(folder, capsys):
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf8")
    (block,) = re.findall(r"^```python\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)
    assert len([line for line in block.splitlines() if line.strip()]) <= 10
    names = {}
    capsys.readouterr()
    exec(compile(block, "docs/python.md", "exec", dont_inherit=True), names)
    shown = capsys.readouterr().out
    assert shown.startswith("[")
    assert shown.count("\n") == 1  # and nothing else
    assert [x.shape for x in names["probabilities"]] == [(50, 3), (30, 3)]
    assert [x.shape for x in names["hidden"]] == [(50, 4), (30, 4)]


def test_a_batch_gives_what_single_inputs_give(folder):
    model = returnn.load("demo.config", epoch=1)
    arrays = [numpy.random.RandomState(i).normal(size=(20 + 7 * i, 9)) for i in range(5)]
    together = model.forward(arrays)
    for array, output in zip(arrays, together, strict=True):
        numpy.testing.assert_allclose(model.forward([array])[0], output, rtol=1e-4, atol=1e-6)
    for output, by_key in zip(together, model.forward({"data": arrays}), strict=True):
        numpy.testing.assert_array_equal(output, by_key)
    texts = model.decode(arrays)
    for array, output, text in zip(arrays, together, texts, strict=True):
        assert model.decode([array]) == [text]
        path = output.argmax(-1)
        assert text == "".join("ab"[b] for a, b in zip([None, *path], path, strict=False) if a != b and b != 2)
    model.close()


TRANSLATION = """#!rnn.py
behavior_version = 30
vocab = {"class": "Vocabulary", "vocab_file": None, "labels": ["</s>", "\u2581a", "b"], "unknown_label": None}
extern_data = {"data": {"vocab": vocab}, "classes": {"vocab": vocab, "available_for_inference": False}}
decoder = {
    "prob": {"class": "softmax", "from": ["base:encoder", "prev:last"], "target": "classes", "loss": "ce"},
    "output": {"class": "choice", "from": "prob", "target": "classes", "beam_size": 3, "initial_output": 0},
    "last": {"class": "linear", "n_out": 4, "from": "output", "activation": None},
    "end": {"class": "compare", "from": "output", "value": 0},
}
network = {
    "hidden": {"class": "linear", "n_out": 4, "from": "data", "activation": None},
    "encoder": {"class": "reduce", "mode": "mean", "axis": "T", "from": "hidden"},
    "output": {"class": "rec", "from": [], "target": "classes", "max_seq_len": 4, "unit": decoder},
    "decision": {"class": "decide", "from": "output", "only_on_search": True},
}
search_output_layer = "decision"
model = "model/net"
allow_random_model_init = True
"""


def test_model_with_a_decoder(folder):
    (folder / "demo.config").write_text(TRANSLATION)
    for file in (folder / "model").iterdir():
        file.unlink()
    model = returnn.load("demo.config")
    (text,) = model.decode(["\u2581a b"])
    assert "\u2581" not in text
    (output,) = model.forward(["\u2581a b"], layer="hidden")  # which needs no target, as the loop does
    assert output.shape == (2, 4)
    with pytest.raises(UserError, match=r"forward: the layer 'output' needs the input 'classes', too: model\."):
        model.forward(["\u2581a b"])
    (labels,) = model.forward({"data": ["\u2581a b"], "classes": ["b"]})
    assert list(labels) == [2]
    (probs,) = model.forward({"data": ["\u2581a b"], "classes": ["b"]}, layer="output/prob")  # inside of the loop
    assert probs.shape == (1, 3)
    numpy.testing.assert_allclose(probs.sum(-1), 1.0, rtol=1e-5)
    with pytest.raises(UserError, match=r"layer 'output/prop': there is no layer 'prop'\.\n  Did you mean 'prob'"):
        model.forward({"data": ["\u2581a b"], "classes": ["b"]}, layer="output/prop")
    with pytest.raises(UserError, match=r"option 'layer': there is no layer 'hiden'.\n  Did you mean 'hidden'"):
        model.forward(["\u2581a b"], layer="hiden")
    with pytest.raises(UserError, match="the layer 'decision' is computed in a search alone"):
        model.forward(["\u2581a b"], layer="decision")
    model.close()
    model = returnn.load("demo.config", search_output_layer=["output"])
    (hypotheses,) = model.decode(["\u2581a b"], with_beam=True)
    assert len(hypotheses) == 3
    assert all("\u2581" not in text for _, text in hypotheses)
    assert all("b b" not in text for _, text in hypotheses)  # they go on with a word, also if none of them begins one
    model.close()


def test_inputs_that_share_a_dim_and_another_one(folder, capsys):
    text = TRANSLATION.replace(
        '{"data": {"vocab": vocab}',
        """{
    "data": {"vocab": vocab, "same_dim_tags_as": {"t": words}}, "second": {"vocab": vocab},
    "factor": {"vocab": vocab, "same_dim_tags_as": {"t": words}}""",
    )
    dim = "from returnn.tensor import Dim\nwords = Dim(None, name='words')\n"
    text = text.replace("behavior_version", f"{dim}behavior_version")
    text = text.replace(
        '"from": "data", "activation": None}',
        """"from": "both", "activation": None},
    "both": {"class": "combine", "kind": "add", "from": ["a", "b"]},
    "a": {"class": "linear", "n_out": 4, "from": "data"}, "b": {"class": "linear", "n_out": 4, "from": "data:factor"},
    "c": {"class": "linear", "n_out": 4, "from": "data:second"},
    "other": {"class": "reduce", "mode": "mean", "axis": "T", "from": "c"}""",
        1,
    )
    text = text.replace('["base:encoder", ', '["base:encoder", "base:other", ')
    (folder / "demo.config").write_text(text)
    for file in (folder / "model").iterdir():
        file.unlink()
    model = returnn.load("demo.config")
    model.prepare("search")
    assert set(model.inputs.describe(for_search=True)) == {"data", "second", "factor"}
    inputs = {"data": ["", "\u2581a b"], "second": ["b", "b"], "factor": ["", "b b"]}
    alone = model.decode({key: texts[1:] for key, texts in inputs.items()})
    assert model.decode(inputs) == ["", *alone]
    capsys.readouterr()
    model.decode({"data": ["b", ""], "second": ["", "b"], "factor": ["b", ""]})
    assert (
        "WARNING: input 1 has nothing as 'data', though something as another data key: the result is empty, too."
        in (capsys.readouterr().err)
    )
    with pytest.raises(UserError, match=r"^decode: the search needs the input 'factor', too: model.decode\(\{'data': "):
        model.decode({"data": ["b"], "second": ["b"]})
    message = (
        "extern_data: 'data' and 'factor' have the same time dim, but other lengths in the sequence 'seq-1' and"
        " 1 other of the batch: 2 and 1."
    )
    texts = ["b", "b b", "b b b"]
    with pytest.raises(UserError) as info:
        model.decode({"data": texts, "second": texts, "factor": ["b", "b", "b"]})
    assert message in str(info.value)
    model.close()


def test_audio_with_channels_of_a_data_set_inside_of_another_one(folder):
    config = CONFIG.replace('"sample_rate": 8000}', '"sample_rate": 8000, "num_channels": 2}')
    config = config.replace('"data": {"dim": 9}', '"data": {"shape": (None, 2, 9)}').replace("dev =", "inner =")
    config = config.replace('"from": "data"}', '"from": "flat"}').replace("model/net", "stereo/net")
    config += """
network["flat"] = {"class": "merge_dims", "axes": "static", "from": "data"}
dev = {"class": "MetaDataset", "datasets": {"audio": inner}, "data_map": {"data": ("audio", "data")}}
"""
    Path("stereo.config").write_text(config)
    assert rnn.main(["rnn.py", "stereo.config", "++task", "initialize_model", "-v", "1"]) == 0
    for name, num_frames in [("c.wav", 4000), ("d.wav", 3000)]:
        with wave.open(name, "wb") as file:
            file.setparams((2, 2, 8000, 0, "NONE", ""))
            samples = numpy.random.RandomState(3).randint(-9000, 9000, (num_frames, 2))
            file.writeframes(samples.astype("int16").tobytes())
    model = returnn.load("stereo.config", epoch=0)
    outputs = model.forward(["c.wav", "d.wav", numpy.zeros((5, 2, 9), "float32")])
    assert len(model.decode(["c.wav", "d.wav"])) == 2
    assert len(outputs[0]) > len(outputs[1]) > len(outputs[2]) == 5


def test_no_inputs_have_no_outputs(folder):
    model = returnn.load("demo.config")
    assert model.decode([]) == model.decode({"data": []}) == model.forward([]) == []
    model.close()


def test_nothing_is_found_in_empty_inputs(folder):
    model = returnn.load("demo.config")
    frames, none = numpy.ones((20, 9)), numpy.zeros((0, 9))
    (text,) = model.decode([frames])
    assert model.decode([none, frames, none]) == ["", text, ""]
    assert model.decode([none]) == [""]
    model.close()


def test_misspelt_options(folder):
    with pytest.raises(
        UserError, match=r"there is no option 'search_output_layers'\. Did you mean 'search_output_layer'"
    ):
        returnn.load("demo.config", search_output_layers=["decision"])


@pytest.mark.parametrize("is_resampled", [True, False])
def test_audio_of_another_sampling_rate(folder, is_resampled, capsys):
    forget_shown()
    with wave.open("b.wav", "wb") as file:
        file.setparams((1, 2, 16000, 0, "NONE", ""))
        file.writeframes(numpy.random.RandomState(1).randint(-9000, 9000, 8000).astype("int16").tobytes())
    if not is_resampled:
        (folder / "demo.config").write_text(CONFIG.replace(', "sample_rate": 8000', ""))
    model = returnn.load("demo.config")
    assert len(model.forward(["a.wav", "b.wav", "b.wav"])) == 3
    lines = capsys.readouterr().err.splitlines()
    found = [line.removeprefix("WARNING: ") for line in lines if "is not resampled" in line]
    assert [text.partition(" and ")[0] for text in found] == (
        []
        if is_resampled
        else [
            "input 0 ('a.wav'): the audio has 8000 Hz",
            "input 1 ('b.wav'): the audio has 16000 Hz, that before 8000 Hz,",
        ]
    )


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ("a.wav", r"expected a list of inputs, such as \['a.wav'\]"),
        ({"data": [], "classes": ["ab"]}, r"needed, got \{'data': 0, 'classes': 1\}\."),
        ({"dat": ["a.wav"]}, r"the inputs: there is no data key 'dat'\.\n  Did you mean 'data'"),
        ({"data": ["a.wav"], "classes": ["ab", "ba"]}, r"needed, got \{'data': 1, 'classes': 2\}\."),
        (["c.wav"], r"there is no file 'c.wav'\."),
        (["some text"], "'some text' is no audio file .*, and the input .* has no 'vocab'"),
        (None, "expected a list of inputs"),
        ([numpy.zeros((3, 9)), "empty.wav"], r"input 1 \('empty.wav'\): the audio file is empty\."),
        ([numpy.zeros((0, 9))], r"input 0: it is empty: there are no frames or labels in it, the shape is \[0, 9\]\."),
        ([numpy.full((3, 9), numpy.nan)], "input 0: the input has values that are not finite"),
        ([numpy.zeros((3, 8))], r"the input has the shape \[3, 8\], but the model expects"),
    ],
)
def test_wrong_inputs(folder, inputs, message):
    (folder / "empty.wav").write_bytes(b"")
    with pytest.raises(UserError, match=message):
        returnn.load("demo.config").forward(inputs)
