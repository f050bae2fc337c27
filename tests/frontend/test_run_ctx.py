"""What a model tells the run that it is part of: losses with all options, outputs that were expected."""

from __future__ import annotations

from collections.abc import Iterator

import numpy
import pytest

import returnn.frontend as rf
from returnn.frontend import run_ctx
from returnn.tensor import Dim, Tensor, TensorDict
from returnn.util.errors import UserError

BATCH = Dim(2, name="batch")
LENGTHS = Tensor("lengths", [BATCH], "int32", raw_tensor=numpy.array([3, 1], "int32"))
TIME = Dim(LENGTHS, name="time")
LABELS = Dim(4, name="labels")
FRAMES = numpy.array([[1, 2, 3], [4, numpy.nan, numpy.nan]], "float32")  # there are 4 frames; their sum is 10


@pytest.fixture(autouse=True)
def numpy_backend() -> Iterator[None]:
    with rf.backend_ctx("numpy"):
        yield


def loss() -> Tensor:
    return Tensor("loss", [BATCH, TIME], "float32", raw_tensor=FRAMES)


@pytest.mark.parametrize(
    ("options", "objective", "mean"),
    [
        ({}, 10, 2.5),
        ({"scale": 0.5}, 5, 2.5),
        ({"scale": None}, 10, 2.5),
        ({"use_normalized_loss": True}, 2.5, 2.5),
        ({"use_normalized_loss": True, "scale": 2.0}, 5, 2.5),
        ({"as_error": True}, 0, 2.5),
        ({"custom_inv_norm_factor": LENGTHS + 1}, 10, 10 / 6),  # summed up
        ({"custom_inv_norm_factor": LENGTHS + 1, "use_normalized_loss": True}, 10 / 6, 10 / 6),
    ],
)
def test_options_of_a_loss(options: dict[str, object], objective: float, mean: float) -> None:
    run_ctx.init_train_step_run_ctx()
    ctx = rf.get_run_ctx()
    ctx.mark_as_loss(loss(), "ce", **options)  # type: ignore[arg-type]
    total = ctx.total_loss()
    numpy.testing.assert_allclose(total.raw_tensor if isinstance(total, Tensor) else total, objective, rtol=1e-6)
    numpy.testing.assert_allclose(ctx.losses["ce"].get_mean_loss().raw_tensor, mean, rtol=1e-6)
    numpy.testing.assert_allclose(ctx.losses["ce"].get_summed_loss().raw_tensor, 10)


def test_losses_add_up() -> None:
    run_ctx.init_train_step_run_ctx()
    ctx = rf.get_run_ctx()
    ctx.mark_as_loss(loss(), "ce")
    ctx.mark_as_loss(numpy.array([1.0, 2.0], "float32"), "l2", dims=[BATCH], scale=0.1)
    ctx.mark_as_loss(loss(), "fer", as_error=True)
    total = ctx.total_loss(factors={"l2": 2.0})
    assert isinstance(total, Tensor)
    numpy.testing.assert_allclose(total.raw_tensor, 10 + 0.1 * 3 * 2, rtol=1e-6)


def test_outputs_have_the_order_of_what_is_expected() -> None:
    template = Tensor("scores", [BATCH, LABELS], "float32")
    run_ctx.init_forward_step_run_ctx(expected_outputs=TensorDict({"scores": template}))
    scores = Tensor("scores", [LABELS, BATCH], "float32", raw_tensor=numpy.zeros((4, 2), "float32"))
    rf.get_run_ctx().mark_as_output(scores, "scores")
    assert rf.get_run_ctx().outputs["scores"].dims == (BATCH, LABELS)
    rf.get_run_ctx().check_outputs_complete()


def test_another_dim_than_the_unknown_one_that_is_expected() -> None:
    unknown = Dim(None, name="unknown")
    templates = {"a": Tensor("a", [BATCH, unknown], "float32"), "b": Tensor("b", [unknown, BATCH, LABELS], "float32")}
    run_ctx.init_forward_step_run_ctx(expected_outputs=TensorDict(templates))
    ctx = rf.get_run_ctx()
    ctx.mark_as_output(loss(), "a")
    assert ctx.outputs["a"].dims == (BATCH, TIME)
    assert ctx.expected_outputs is not None
    assert ctx.expected_outputs["b"].dims == (TIME, BATCH, LABELS)
    other = Dim(Tensor("lengths", [BATCH], "int32", raw_tensor=numpy.array([3, 1], "int32")), name="other")
    with pytest.raises(UserError, match=r"(?s)'b': expected .*time.*, got .*other"):
        ctx.mark_as_output(numpy.zeros((3, 2, 4)), "b", dims=[other, BATCH, LABELS])
    ctx.mark_as_output(rf.zeros([BATCH, LABELS, TIME]), "b")
    assert ctx.outputs["b"].dims == (TIME, BATCH, LABELS)
    assert unknown != TIME, "the next step has other lengths"


def test_errors() -> None:
    run_ctx.init_forward_step_run_ctx(expected_outputs=TensorDict({"scores": Tensor("scores", [BATCH], "float32")}))
    ctx = rf.get_run_ctx()
    with pytest.raises(UserError, match="the outputs 'scores' are expected, but the model did not mark them"):
        ctx.check_outputs_complete()
    with pytest.raises(UserError, match=r"(?s)'scoers': is not expected.*Did you mean 'scores'"):
        ctx.mark_as_output(loss(), "scoers")
    with pytest.raises(UserError, match=r"(?s)'scores': expected .*\[batch\(2\)\].*, got .*time"):
        ctx.mark_as_output(loss(), "scores")
    ctx.mark_as_output(rf.zeros([BATCH]), "scores")
    with pytest.raises(UserError, match="there is an output 'scores' already"):
        ctx.mark_as_output(rf.zeros([BATCH]), "scores")
    with pytest.raises(
        UserError, match="mark_as_loss 'ce': only possible in a training step, but this is 'forward_step"
    ):
        ctx.mark_as_loss(loss(), "ce")
    run_ctx.init_train_step_run_ctx()
    rf.get_run_ctx().mark_as_loss(loss(), "ce")
    with pytest.raises(UserError, match="there is a loss 'ce' already"):
        rf.get_run_ctx().mark_as_loss(loss(), "ce")


def test_what_cannot_be_marked():
    frames, features = Dim(3, name="frames"), Dim(2, name="features")
    raw = numpy.zeros((3, 2), "float32")
    rf.init_train_step_run_ctx()
    ctx = rf.get_run_ctx()
    wrong = [
        (lambda: ctx.mark_as_loss("ce", raw), r"the arguments are \(loss, name\); got 'ce' and a ndarray"),
        (lambda: ctx.mark_as_loss(None, "ce"), "mark_as_loss 'ce': expected a tensor, got None"),
        (lambda: ctx.mark_as_loss(raw, "ce"), r"the shape \[3, 2\], and dims=\[\].\n .* a dim for each axis"),
        (lambda: ctx.mark_as_loss(raw, "ce", dims=[features, frames]), "axis 0 of .* 3 entries, the dim features.* 2"),
        (lambda: ctx.mark_as_loss(raw.astype("int32"), "ce", dims=[frames, features]), "has to be float, got int32"),
        (lambda: ctx.mark_as_output(raw, "x", dims=[frames]), "mark_as_output 'x': the tensor has the shape"),
    ]
    for call, message in wrong:
        with pytest.raises(UserError, match=message):
            call()
    ctx.mark_as_loss(numpy.array([1, 0, 0]), "error", dims=[frames], as_error=True)
    assert abs(float(ctx.losses["error"].get_mean_loss().raw_tensor) - 1 / 3) < 1e-6


@pytest.mark.parametrize("factor", [5, 5.0, numpy.int64(5), numpy.array([3, 2]), numpy.array(5, "float32")], ids=repr)
def test_a_loss_is_divided_by_a_raw_factor(factor):
    rf.init_train_step_run_ctx()
    ctx = rf.get_run_ctx()
    ctx.mark_as_loss(loss(), "ce", custom_inv_norm_factor=factor, use_normalized_loss=True)
    assert float(ctx.losses["ce"].get_mean_loss().raw_tensor) == 2
    assert float(ctx.losses["ce"].get_scaled_reduced_loss().raw_tensor) == 2
    assert float(ctx.losses["ce"].get_inv_norm_factor().raw_tensor) == 5


@pytest.mark.parametrize("factor", ["classes", TIME])
def test_what_a_loss_cannot_be_divided_by(factor):
    rf.init_train_step_run_ctx()
    with pytest.raises(
        UserError, match=r"(?s)mark_as_loss 'ce': custom_inv_norm_factor: expected a tensor, got .*size"
    ):
        rf.get_run_ctx().mark_as_loss(loss(), "ce", custom_inv_norm_factor=factor)
