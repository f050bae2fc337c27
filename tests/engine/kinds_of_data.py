"""
Data of many kinds, and a model that takes any of them: what configs of `test_kinds_of_data.py` are made of.

The model has a linear layer or an embedding for each data key, the mean of that over all axes but the batch, and the
sum of these as logits of three classes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

import returnn.frontend as rf
from returnn.config import get_global_config
from returnn.datasets.map import MapDatasetBase
from returnn.tensor import Dim, Tensor, TensorDict, batch_dim

NUM_SEQS = 5
HIDDEN, CLASSES = Dim(5, name="hidden"), Dim(3, name="classes")
TIME, INNER = (Dim(None, name=name, kind=Dim.Types.Spatial) for name in ("time", "inner"))
FEATURES, LABELS = (Dim(size, name=name, kind=Dim.Types.Feature) for name, size in (("features", 4), ("labels", 6)))
FRAMES = {"dims": [batch_dim, TIME, FEATURES], "feature_dim": FEATURES}


def _frames(i: int) -> int:
    return 3 + 7 * i % 5


def _inner(i: int) -> int:
    return 2 + 3 * i % 4


def _floats(i: int, *shape: int) -> numpy.ndarray:
    return numpy.random.RandomState(i).normal(size=shape).astype("float32")


def _labels(i: int, *shape: int) -> numpy.ndarray:
    return numpy.random.RandomState(i + 50).randint(6, size=shape).astype("int32")


# By name: `extern_data` without the target, and the arrays of a sequence.
KINDS: dict[str, tuple[dict[str, Any], Callable[[int], dict[str, numpy.ndarray]]]] = {
    "frames and labels of their own times": (
        {"data": {"dim": 4}, "other": {"dim": 6, "sparse": True}},
        lambda i: {"data": _floats(i, _frames(i), 4), "other": _labels(i, _inner(i))},
    ),
    "frames and labels of one time": (
        {"data": FRAMES, "factor": {"dims": [batch_dim, TIME], "sparse_dim": LABELS}},
        lambda i: {"data": _floats(i, _frames(i), 4), "factor": _labels(i, _frames(i))},
    ),
    "channels": ({"data": {"shape": (None, 2, 4)}}, lambda i: {"data": _floats(i, _frames(i), 2, 4)}),
    "a vector": (
        {"data": {"shape": (4,), "dim": 4, "time_dim_axis": None}},
        lambda i: {"data": _floats(i, 4)},
    ),
    "frames, a vector, a label and a number": (
        {
            "data": {"dim": 4},
            "speaker": {"shape": (3,), "dim": 3, "time_dim_axis": None},
            "language": {"shape": (), "dim": 6, "sparse": True, "time_dim_axis": None},
            "rate": {"shape": (), "dim": None, "dtype": "float32", "time_dim_axis": None},
        },
        lambda i: {
            "data": _floats(i, _frames(i), 4), "speaker": _floats(i, 3), "language": _labels(i), "rate": _floats(i)[()],
        },
    ),
    "an image": (
        {"data": {"shape": (6, 5, 3), "dim": 3, "time_dim_axis": None, "dtype": "uint8"}},
        lambda i: {"data": numpy.random.RandomState(i).randint(255, size=(6, 5, 3)).astype("uint8")},
    ),
    "frames and a mask": (
        {"data": FRAMES, "mask": {"dims": [batch_dim, TIME], "dtype": "bool"}},
        lambda i: {"data": _floats(i, _frames(i), 4), "mask": _labels(i, _frames(i)) > 2},
    ),
    "samples": (
        {"data": {"shape": (None,), "dim": None, "dtype": "float32"}},
        lambda i: {"data": _floats(i, _frames(i))},
    ),
    "two lengths": (
        {"data": {"shape": (None, None, 4), "dim": 4}},
        lambda i: {"data": _floats(i, _frames(i), _inner(i), 4)},
    ),
    "two lengths, both of them shared": (
        {
            "data": {"dims": [batch_dim, TIME, INNER, FEATURES], "feature_dim": FEATURES},
            "table": {"dims": [batch_dim, INNER, TIME, LABELS], "feature_dim": LABELS},
        },
        lambda i: {"data": _floats(i, _frames(i), _inner(i), 4), "table": _floats(i, _inner(i), _frames(i), 6)},
    ),
}  # fmt: skip


def extern_data(kind: str) -> dict[str, Any]:
    """:return: the option of a config"""
    return {**KINDS[kind][0], "classes": {"dims": [batch_dim], "sparse_dim": CLASSES}}


def inputs(kind: str) -> dict[str, list[numpy.ndarray]]:
    """:return: arrays of all sequences, by data key"""
    seqs = [KINDS[kind][1](i) for i in range(NUM_SEQS)]
    return {key: [seq[key] for seq in seqs] for key in seqs[0]}


class Data(MapDatasetBase):
    """The sequences of a kind."""

    def __init__(self, kind: str) -> None:
        super().__init__(data_types=extern_data(kind))
        self._arrays = KINDS[kind][1]

    def __len__(self) -> int:
        return NUM_SEQS

    def __getitem__(self, seq_idx: int) -> dict[str, numpy.ndarray]:
        return {**self._arrays(seq_idx), "classes": numpy.array(seq_idx % 3, "int32")}


class Model(rf.Module):
    """Takes data of any kind."""

    def __init__(self, templates: dict[str, Tensor]) -> None:
        super().__init__()
        self.keys = sorted(templates)
        self.parts = rf.ModuleList([_part(templates[key]) for key in self.keys])
        self.out = rf.Linear(HIDDEN, CLASSES)

    def __call__(self, data: TensorDict) -> Tensor:
        total: Any = 0.0
        for key, part in zip(self.keys, self.parts, strict=True):
            x = data[key]
            if x.sparse_dim is None:
                x = rf.cast(x, "float32")
                x = x if x.feature_dim is not None else rf.expand_dim(x, part.in_dim)
            x = rf.tanh(part(x))
            total += rf.reduce_mean(x, axis=[dim for dim in x.dims if dim not in (batch_dim, HIDDEN)])
        return self.out(total)


def _part(template: Tensor) -> rf.Module:
    if template.sparse_dim is not None:
        return rf.Embedding(template.sparse_dim, HIDDEN)
    return rf.Linear(template.feature_dim or Dim(1, name="one"), HIDDEN)


def get_model(**_kwargs: Any) -> Model:
    """:return: for the data of the config"""
    templates = TensorDict()
    templates.update(get_global_config().typed_dict["extern_data"], auto_convert=True)
    return Model({key: template for key, template in templates.data.items() if key != "classes"})


def train_step(*, model: Model, extern_data: TensorDict, **_kwargs: Any) -> None:
    """Cross entropy."""
    classes = extern_data["classes"]
    loss = rf.cross_entropy(estimated=model(extern_data), target=classes, axis=CLASSES, estimated_type="logits")
    loss.mark_as_loss("ce")


def forward_step(*, model: Model, extern_data: TensorDict, **_kwargs: Any) -> None:
    """Log probabilities."""
    rf.log_softmax(model(extern_data), axis=CLASSES).mark_as_default_output(shape=[batch_dim, CLASSES])
