"""Texts, arrays and audio as inputs of a model."""

from returnn.config import Config
from returnn.engine.model_inputs import ModelInputs
from returnn.tensor import Dim, Tensor, batch_dim


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
