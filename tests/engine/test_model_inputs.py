"""Texts, arrays and audio as inputs of a model."""

import re
import wave

import numpy
import pytest

from returnn.config import Config
from returnn.engine.model_inputs import ModelInputs
from returnn.tensor import Dim, Tensor, batch_dim
from returnn.util.errors import UserError
from returnn.util.system.warn_once import forget_shown


def test_each_data_key_has_its_own_vocabulary_also_for_the_same_dim():
    labels, vocab = Dim(3, name="labels"), {"class": "Vocabulary", "vocab_file": None, "labels": ["a", "b", "</s>"]}
    vocab = {**vocab, "unknown_label": None}
    described = {
        "data": {"dims": [batch_dim, Dim(None, name="time")], "sparse_dim": labels, "vocab": vocab},
        "classes": {
            "dims": [batch_dim, Dim(None, name="out")],
            "sparse_dim": labels,
            "vocab": {**vocab, "seq_postfix": [2]},
        },
    }
    templates = {
        key: Tensor(key, dims=options["dims"], dtype="int32", sparse_dim=labels) for key, options in described.items()
    }
    inputs = ModelInputs(Config({"extern_data": described}), "data", templates)
    labels.vocab = None
    assert inputs.array("data", "a b").tolist() == [0, 1]
    assert inputs.array("classes", "a b").tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("template", "shape"),
    [
        ({"shape": (None, 2, 3)}, (4, 2, 3)),
        ({"shape": (None, 2, 2, 3)}, (4, 2, 2, 3)),
        ({"shape": (None, 3)}, (4, 3)),
        ({"shape": (None,), "dim": None}, (4,)),
        ({"shape": (3,), "time_dim_axis": None}, (3,)),
        ({"shape": (), "dim": None, "time_dim_axis": None}, ()),
        ({"shape": (None,), "dim": 3, "sparse": True}, (4,)),
        ({"shape": (3, None), "time_dim_axis": 2, "feature_dim_axis": 1}, (4, 3)),
    ],
    ids=str,
)
def test_inputs_have_any_number_of_axes(template, shape):
    inputs = ModelInputs(Config({}), "data", {"data": Tensor("data", **template)})
    array = numpy.ones(shape, "int32" if template.get("sparse") else "float32")
    dataset = inputs.dataset([array])
    dataset.init_seq_order(epoch=1)
    dataset.load_seqs(0, 1)
    numpy.testing.assert_array_equal(dataset.get_data(0, "data"), array)
    wrong = [(*shape, 1), *([shape[:-1]] if len(shape) > 1 else [])]
    wrong += [(*shape[:i], 5, *shape[i + 1 :]) for i, size in enumerate(shape) if size != 4]
    for other in wrong:
        with pytest.raises(UserError, match=re.escape(f"the input has the shape {list(other)}, but the model expects")):
            inputs.dataset([numpy.ones(other, array.dtype)])


def test_a_text_can_be_a_single_label():
    vocab = {"class": "Vocabulary", "vocab_file": None, "labels": ["de", "en", "</s>"], "unknown_label": None}
    template = Tensor("data", shape=(), dim=3, sparse=True, dtype="int32", time_dim_axis=None)
    inputs = ModelInputs(Config({"extern_data": {"data": {"vocab": vocab, "shape": ()}}}), "data", {"data": template})
    dataset = inputs.dataset(["en", 2, "de"])
    dataset.init_seq_order(epoch=1)
    dataset.load_seqs(0, 3)
    found = [dataset.get_data(i, "data") for i in range(3)]
    assert [label.shape for label in found] == [()] * 3
    assert sorted(map(int, found)) == [0, 1, 2]
    for text, number in (("de en", "2 labels"), ("", "0 labels")):
        with pytest.raises(
            UserError, match=re.escape(f"input 0 ({text!r}): {text!r} is {number}, but the model expect")
        ):
            inputs.dataset([text])


def wav(tmp_path):
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes(numpy.random.RandomState(1).randint(-9000, 9000, 4000).astype("int16").tobytes())
    return tmp_path / "a.wav"


def with_noise(audio, random_state):
    return audio + random_state.normal(size=audio.shape)


@pytest.mark.parametrize("in_config", [False, True])
@pytest.mark.parametrize("is_random", [False, True])
def test_features_of_audio_are_those_of_the_data_where_the_key_is_from(tmp_path, capsys, in_config, is_random):
    audio = {"features": "log_mel_filterbank", "num_feature_filters": 7, "sample_rate": 8000}
    audio = {**audio, "pre_process": with_noise} if is_random else audio
    zip_file = {"class": "OggZipDataset", "path": "x.zip"}
    both = {
        "teacher": {**zip_file, "audio": {**audio, "num_feature_filters": 5}},
        "audio": {**zip_file, "audio": audio},
    }
    data_map = {"teacher": ("teacher", "data"), "data": ("audio", "data")}
    data = {"class": "MetaDataset", "datasets": both, "data_map": data_map}
    config = Config({"train": "config:data" if in_config else data, "data": data})
    inputs = ModelInputs(config, "data", {"data": Tensor("data", shape=(None, 7))})
    forget_shown()
    dataset = inputs.dataset([wav(tmp_path)])
    assert dataset.num_outputs["data"] == (7, 2)
    text = "audio features of 'data': the function 'pre_process' gets a random state, and may change the data by it"
    assert (text in "".join(capsys.readouterr())) is is_random
