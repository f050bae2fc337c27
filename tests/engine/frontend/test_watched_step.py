"""What `check` finds in a step of a model although all dims fit together."""

import functools

import numpy
import pytest

import returnn.frontend as rf
from returnn.config import Config
from returnn.engine.frontend import tasks
from returnn.engine.frontend.check import check_model
from returnn.engine.frontend.watched_step import watched_step
from returnn.tensor import Dim, Tensor, batch_dim
from returnn.util.backend_engine import BackendEngine
from returnn.util.errors import ConfigError, UserError

TIME, LABELS_TIME, TARGETS_TIME = (Dim(None, name=name) for name in ("time", "labels-time", "targets-time"))
FEATURE, LABELS, CLASSES, HIDDEN = (
    Dim(3, name="feature"),
    Dim(4, name="labels"),
    Dim(5, name="classes"),
    Dim(6, name="h"),
)


def data_of(lengths):
    seqs = [
        {"data": numpy.zeros((num_frames, 3), "float32"), "classes": numpy.array(labels, "int32")}
        for num_frames, labels in lengths
    ]
    return {"class": "StaticDataset", "data": seqs, "output_dim": {"data": (3, 2), "classes": (4, 1)}}


def config_of(train_step, get_model, lengths=((9, [1, 2]), (12, [1, 1, 2]))):
    return Config(
        {
            "backend": "torch",
            "train": data_of(lengths),
            "extern_data": {
                "data": {"dims": [batch_dim, TIME, FEATURE], "feature_dim": FEATURE},
                "classes": {"dims": [batch_dim, LABELS_TIME], "sparse_dim": LABELS},
            },
            "get_model": get_model,
            "train_step": train_step,
            "learning_rate": 0.1,
        }
    )


class _Subsampling(rf.Module):
    """A third of the frames."""

    def __init__(self):
        super().__init__()
        self.conv = rf.Conv1d(FEATURE, CLASSES, 3, strides=3, padding="same")


@pytest.mark.parametrize(("axis", "warns"), [(LABELS_TIME, True), (LABELS, False)])
def test_cross_entropy_over_frames(axis, warns, capsys):
    def train_step(*, model, extern_data, **_kwargs):
        labels = extern_data["classes"]
        logits = model(rf.shift_right(labels, axis=LABELS_TIME, pad_value=0))
        target = rf.label_smoothing(labels, 0.1, axis=LABELS)
        loss = rf.cross_entropy(estimated=logits, target=target, axis=axis, estimated_type="logits")
        rf.get_run_ctx().mark_as_loss(loss, "ce")

    check_model(config_of(train_step, lambda **_kwargs: rf.Embedding(LABELS, LABELS)))
    said = capsys.readouterr().out
    assert ("rf.cross_entropy: its axis is 'labels-time'" in said) == warns
    assert ("For the labels, it is axis=labels." in said) == warns
    assert "it learns to copy" not in said


def ctc_step(*, model, extern_data, leaves_out=False, **_kwargs):
    logits, spatial_dim = model.conv(extern_data["data"], in_spatial_dim=TIME)
    loss = rf.ctc_loss(
        logits=logits,
        targets=extern_data["classes"],
        input_spatial_dim=spatial_dim,
        targets_spatial_dim=LABELS_TIME,
        blank_index=4,
    )
    if leaves_out:
        loss = rf.where(rf.is_finite(loss), loss, 0.0)
    rf.get_run_ctx().mark_as_loss(loss, "ctc")


@pytest.mark.parametrize(
    ("lengths", "text"),
    [
        ([(9, [1, 2, 3]), (10, [1, 2, 3, 1])], None),
        ([(9, [1, 2, 3]), (9, [1, 2, 3, 1])], "In the sequence 'seq-1' (all 2 sequences): 4 labels; 3 frames."),
        ([(9, [1, 1, 3])], "3 labels, which need 4 with a blank between two of the same; 3 frames."),
    ],
)
def test_labels_of_ctc_behind_a_subsampling(lengths, text, capsys):
    config = config_of(ctc_step, lambda **_kwargs: _Subsampling(), lengths)
    if text is None:
        check_model(config)
        return
    with pytest.raises(ConfigError, match="the check found 1 error"):
        check_model(config)
    out = capsys.readouterr().out
    assert "1. train: rf.ctc_loss: the target 'classes' needs at least as many frames. " in out
    assert text in out


def test_forced_alignment_of_labels_that_are_too_many(capsys):
    def forward_step(*, model, extern_data, **_kwargs):
        logits, spatial_dim = model.conv(extern_data["data"], in_spatial_dim=TIME)
        dims = {"input_spatial_dim": spatial_dim, "targets_spatial_dim": LABELS_TIME}
        path = rf.ctc_best_path(logits=logits, targets=extern_data["classes"], **dims, blank_index=4)
        rf.get_run_ctx().mark_as_output(path, "output", dims=[batch_dim, spatial_dim])

    def train_step(*, model, extern_data, **_kwargs):
        logits, _ = model.conv(extern_data["data"], in_spatial_dim=TIME)
        rf.get_run_ctx().mark_as_loss(logits, "small")

    lengths = [(9, [1, 2, 3]), (9, [1, 2, 3, 1])]
    config = config_of(train_step, lambda **_kwargs: _Subsampling(), lengths[:1])
    config.update({"forward_step": forward_step, "forward_data": data_of(lengths)})
    check_model(config)
    assert (
        "forward_data: rf.ctc_best_path: the target 'classes' needs at least as many frames. In the sequence 'seq-1' "
        "(all 2 sequences): 4 labels; 3 frames. There the output is no alignment, and its score is -inf: leave these"
    ) in " ".join(capsys.readouterr().out.split())


def test_labels_of_ctc_that_a_step_leaves_out_where_its_loss_is_infinite(capsys):
    step = functools.partial(ctc_step, leaves_out=True)
    check_model(config_of(step, lambda **_kwargs: _Subsampling(), [(9, [1, 2, 3]), (9, [1, 2, 3, 1])]))
    out = capsys.readouterr().out
    assert "WARNING: train: rf.ctc_loss: the target 'classes' needs at least as many frames. " in out
    assert "Where there is no alignment, the loss is 0" in out
    assert "Leave these sequences out" not in out


@pytest.mark.parametrize("backend", ["torch", "tensorflow"])
def test_training_with_labels_of_ctc_that_are_too_many(backend, tmp_path, monkeypatch):
    monkeypatch.setattr(BackendEngine, "selected_engine", None)
    config = config_of(ctc_step, lambda **_kwargs: _Subsampling(), [(9, [1, 2, 3, 1])])
    config.update({"backend": backend, "task": "train", "num_epochs": 1, "model": str(tmp_path / "net")})
    config.update({"batch_size": 100, "device": "cpu"})
    BackendEngine.select_engine(config=config)
    try:
        with pytest.raises(
            UserError, match=r"loss:ctc\.(.|\n)*rf\.ctc_loss is infinite where targets need more frames"
        ) as caught:
            tasks.train(config)
        if backend == "torch":  # which is asked for the lengths; a graph would have to be made anew for that
            assert "frames. In 'seq-0': 4 labels; 3 frames.\n  Leave these sequences out" in str(caught.value)
    finally:
        rf.select_backend_numpy()
        TIME.reset_raw()
        LABELS_TIME.reset_raw()


class _Attention(rf.Module):
    def __init__(self):
        super().__init__()
        self.encoder = rf.Linear(FEATURE, HIDDEN)
        self.embedding = rf.Embedding(LABELS, HIDDEN)
        self.output = rf.Linear(HIDDEN, LABELS)


def attention_step(axis, reduce, drop_prob):
    def train_step(*, model, extern_data, **_kwargs):
        labels = extern_data["classes"]
        encoder = model.encoder(extern_data["data"])
        query = model.embedding(rf.shift_right(labels, axis=LABELS_TIME, pad_value=0))
        weights = rf.softmax(rf.matmul(query, encoder, reduce=HIDDEN), axis=axis)
        weights = rf.dropout(weights, drop_prob)
        context = rf.matmul(weights, encoder if reduce == TIME else query, reduce=reduce)
        if reduce != TIME:
            context = rf.reduce_mean(context, axis=TIME) + query
        loss = rf.cross_entropy(estimated=model.output(context), target=labels, axis=LABELS, estimated_type="logits")
        rf.get_run_ctx().mark_as_loss(loss, "ce")

    return train_step


@pytest.mark.parametrize("drop_prob", [0.0, 0.1])
@pytest.mark.parametrize(("axis", "reduce"), [(TIME, TIME), (LABELS_TIME, TIME), (TIME, LABELS_TIME)])
def test_weights_that_are_summed_over_another_dim_than_that_of_their_softmax(axis, reduce, drop_prob, capsys):
    check_model(config_of(attention_step(axis, reduce, drop_prob), lambda **_kwargs: _Attention()))
    out = capsys.readouterr().out
    assert ("but the weights are a softmax over" in out) == (axis != reduce)
    if axis != reduce:
        assert f"WARNING: train_step: In {__file__}, line " in out
        assert f", train_step: sums over {reduce}, but the weights are a softmax over {axis}," in out


def test_probabilities_of_classes_are_summed_over_anything(capsys):
    def train_step(*, model, extern_data, **_kwargs):
        probs = rf.softmax(rf.matmul(extern_data["data"], model.encoder.weight, reduce=FEATURE), axis=HIDDEN)
        centers = rf.matmul(probs, extern_data["data"], reduce=TIME)
        rf.get_run_ctx().mark_as_loss(rf.reduce_sum(centers, axis=[HIDDEN, FEATURE]), "sum")

    check_model(config_of(train_step, lambda **_kwargs: _Attention()))
    assert "softmax" not in capsys.readouterr().out


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_input_of_a_tagger_is_not_predicted(smoothing):
    letters, tags = (
        Tensor(name, [batch_dim, TIME], "int32", sparse_dim=dim) for name, dim in (("data", LABELS), ("tags", CLASSES))
    )
    logits = Tensor("logits", [batch_dim, TIME, CLASSES], "float32", feature_dim=CLASSES)
    with rf.backend_ctx("template"), watched_step({"data": letters, "tags": tags}) as found:
        target = rf.label_smoothing(tags, smoothing) if smoothing else tags
        rf.cross_entropy(estimated=logits, target=target, axis=CLASSES, estimated_type="logits")
    assert found.predicted == (set() if smoothing else {"tags"})


@pytest.mark.parametrize(("classes", "blank", "warns"), [(LABELS, 1, True), (LABELS, 0, False), (CLASSES, 1, False)])
def test_blank_that_targets_have_as_a_label(classes, blank, warns, capsys):
    def train_step(*, model, extern_data, **_kwargs):
        loss = rf.ctc_loss(
            logits=model(extern_data["data"]), targets=extern_data["classes"], input_spatial_dim=TIME,
            targets_spatial_dim=LABELS_TIME, blank_index=blank,
        )  # fmt: skip
        loss.mark_as_loss("ctc")

    check_model(config_of(train_step, lambda **_kwargs: rf.Linear(FEATURE, classes)))
    text = (
        "rf.ctc_loss: label 1 of the target 'classes' is blank, but data 'train' has it, first in 'seq-0'."
        " A label is the class of the same index, not shifted for blank: take a label that is in no target,"
        " or one class more than there are labels, the last one."
    )
    assert (text in capsys.readouterr().out) is warns
