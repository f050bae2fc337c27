"""Models that see the labels which they predict, as `check` warns of them."""

import numpy
import pytest

import returnn.frontend as rf
from returnn.config import Config
from returnn.engine.frontend.check import check_model
from returnn.engine.frontend.seen_labels import keys_of_seen_labels
from returnn.tensor import Dim, Tensor, batch_dim
from returnn.util.errors import ConfigError

time_dim = Dim(None, name="time")
labels_dim = Dim(7, name="labels")
hidden_dim = Dim(8, name="hidden")


def _shifted(x, axis):
    return rf.shift_right(x, axis=axis, pad_value=0)


class _Model(rf.Module):
    def __init__(self):
        super().__init__()
        self.embedding = rf.Embedding(labels_dim, hidden_dim)
        self.lstm = rf.LSTM(hidden_dim, hidden_dim)
        self.output = rf.Linear(hidden_dim, labels_dim)

    def recurrent(self, x):
        state = self.lstm.default_initial_state(batch_dims=[batch_dim])
        return self.lstm(x, state=state, spatial_dim=time_dim)[0]


def _plain(model, x):
    return model.recurrent(x)


def _shifted_lstm(model, x):
    return model.recurrent(_shifted(x, time_dim))


def _backwards(model, x):
    x = rf.reverse_sequence(_shifted(x, time_dim), axis=time_dim)
    return rf.reverse_sequence(model.recurrent(x), axis=time_dim)


def _looks_at_all(model, x):
    x = _shifted(x, time_dim)
    return rf.combine_bc(x, "+", rf.reduce_mean(x, axis=time_dim))


def _config(hidden, **options):
    def train_step(*, model, extern_data, **_kwargs):
        labels = extern_data["data"]
        logits = model.output(hidden(model, model.embedding(labels)))
        smooth = options.get("smooth")
        target = rf.label_smoothing(labels, smooth, axis=labels_dim) if smooth else labels
        loss = rf.cross_entropy(estimated=logits, target=target, estimated_type="logits", axis=labels_dim)
        rf.get_run_ctx().mark_as_loss(loss, "ce")

    seqs = [{"data": numpy.array(labels, "int32")} for labels in ([1, 2, 3, 4, 0], [2, 0], [5, 6, 1, 0])]
    data = {"class": "StaticDataset", "data": seqs, "output_dim": {"data": (7, 1)}}
    return Config(
        {
            "backend": "torch",
            "train": data,
            "extern_data": {"data": {"dims": [batch_dim, time_dim], "sparse_dim": labels_dim}},
            "get_model": lambda **_kwargs: _Model(),
            "train_step": train_step,
            "learning_rate": 0.1,
        }
    )


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize("smooth", [None, 0.1])
@pytest.mark.parametrize(
    ("hidden", "is_seen"),
    [(_plain, True), (_shifted_lstm, False), (_backwards, True), (_looks_at_all, True)],
)
def test_what_is_predicted_is_seen(hidden, is_seen, smooth, backend):
    seq = {"data": numpy.array([1, 2, 3, 4, 5], "int32")}
    found = list(keys_of_seen_labels(_config(hidden, smooth=smooth), seq, backend=backend))
    assert found == (["data"] if is_seen else [])


def test_nothing_is_known_of_a_model_with_random_numbers():
    def noisy(model, x):
        return x + rf.random_normal(x.dims)

    seq = {"data": numpy.array([1, 2, 3, 4, 5], "int32")}
    assert not list(keys_of_seen_labels(_config(noisy), seq, backend="numpy"))


@pytest.mark.parametrize("raw", [None, numpy.array(7, "int32")])
def test_the_lengths_of_before_come_back(raw):
    before = Tensor("size", dims=[], dtype="int32", raw_tensor=raw)
    batch_dim.dyn_size_ext = before
    list(keys_of_seen_labels(_config(_plain), {"data": numpy.array([1, 2, 3], "int32")}, backend="numpy"))
    assert batch_dim.dyn_size_ext is before


@pytest.mark.parametrize("hidden", [_plain, _shifted_lstm])
def test_check_warns(hidden, capsys):
    check_model(_config(hidden))
    said = capsys.readouterr().out
    text = "the model sees the labels of 'data' that it predicts, so it learns to copy them"
    assert (text in said) == (hidden is _plain)
    assert "whether it sees what it predicts" in said


def test_label_that_an_embedding_has_not_is_an_error(capsys):
    def begins_with_minus_one(model, x):
        labels = rf.set_sparse_dim(rf.range_over_dim(time_dim), labels_dim)
        return x + model.embedding(rf.shift_right(labels, axis=time_dim, pad_value=-1))

    with pytest.raises(ConfigError, match="1 error"):
        check_model(_config(begins_with_minus_one))
    said = capsys.readouterr().out
    assert "train_step, with data: gather: 'weight' [labels(7), hidden(8)]: there is no index -1 in labels(7)" in said
    assert "Possible are 0 to 6." in said


def test_check_goes_on_where_the_backend_cannot_compute_it(capsys):
    def fails_with_values(model, x):
        if x.raw_tensor is not None:
            raise TypeError("not for this backend")
        return x

    check_model(_config(fails_with_values))
    said = capsys.readouterr().out
    assert "not looked at whether it sees the labels" in said
    assert "not for this backend" in said


@pytest.mark.parametrize("end", [0, 6])
def test_check_warns_of_an_end_that_is_nowhere(end, capsys):
    config = _config(_shifted_lstm)
    vocab = {"class": "Vocabulary", "vocab_file": None, "labels": list("_abcde$"), "eos_label": end}
    config.set("extern_data", {"data": {"dims": [batch_dim, time_dim], "sparse_dim": labels_dim, "vocab": vocab}})
    check_model(config)
    assert ("'$' is the end, but no sequence ends with it" in capsys.readouterr().out) == (end == 6)
