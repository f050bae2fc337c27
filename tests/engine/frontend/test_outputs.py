"""What outputs of `forward_step` become."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy
import pytest
import tensorflow as tf

import returnn.frontend as rf
from returnn.datasets import init_dataset
from returnn.datasets.hdf import HDFDataset
from returnn.datasets.util.vocabulary import Vocabulary
from returnn.engine.frontend.outputs import HdfOutput, HypothesesOutput, each_seq, output_arrays
from returnn.engine.frontend.references import References
from returnn.tensor import Dim, Tensor, TensorDict, batch_dim
from returnn.util.errors import ConfigError
from returnn.util.system.warn_once import forget_shown

LABELS, BEAM, FRAMES = Dim(5, name="labels"), Dim(3, name="beam"), Dim(2, name="frames")


def test_places_of_the_beam_without_hypothesis_are_left_out() -> None:
    with rf.backend_ctx("numpy"):
        labels = numpy.array([[1, 2], [3, 4], [0, 0]], "int32")
        outputs = TensorDict(
            {
                "output": Tensor("output", [BEAM, FRAMES], "int32", sparse_dim=LABELS, raw_tensor=labels),
                "scores": Tensor("scores", [BEAM], "float32", raw_tensor=numpy.array([-2.0, -1.0, -1e30], "float32")),
            }
        )
        found = HypothesesOutput("output")
        found.process_seq(seq_tag="seq", outputs=outputs)
        assert found.results["seq"] == [(-1.0, "3 4"), (-2.0, "1 2")]
        outputs["scores"].raw_tensor = numpy.full(3, -1e30, "float32")
        found.process_seq(seq_tag="none", outputs=outputs)
        assert len(found.results["none"]) == 1


@pytest.mark.parametrize("first", [-2.0, -0.5])
def test_hypotheses_that_are_ordered_otherwise(first: float, caplog: pytest.LogCaptureFixture) -> None:
    forget_shown()
    raw = numpy.array([[1, 2], [3, 4], [0, 0]], "int32")
    outputs = TensorDict({"output": Tensor("output", [BEAM, FRAMES], "int32", sparse_dim=LABELS, raw_tensor=raw)})
    scores = numpy.array([first, -1.0, -3.0], "float32")
    outputs.data["scores"] = Tensor("scores", [BEAM], "float32", raw_tensor=scores)
    found = HypothesesOutput("output")
    found.process_seq(seq_tag="seq", outputs=outputs)
    assert found.results["seq"][0] == max((first, "1 2"), (-1.0, "3 4"))
    text = "the output 'scores' is not highest for the first hypothesis of the beam, in sequence 'seq'"
    assert (text in caplog.text) == (first < -1)


def _labels(numbers: list[int], names: Sequence[str]) -> TensorDict:
    dim = Dim(max(len(names), 1), name="labels")
    dim.vocab = Vocabulary(None, labels=list(names), unknown_label=None) if names else None
    raw = numpy.array(numbers, "int32")
    frames = Dim(len(numbers), name="frames")
    return TensorDict({"output": Tensor("output", [frames], "int32", sparse_dim=dim, raw_tensor=raw)})


@pytest.mark.parametrize(("names", "expected"), [(["\u2581", "d", "u"], True), (["d", "u", "x"], False), ([], False)])
def test_the_vocabulary_says_whether_words_have_prefixes(names: list[str], expected: bool) -> None:
    found = HypothesesOutput("output")
    found.process_seq(seq_tag="seq", outputs=_labels([1, 2], names))
    assert found.has_prefixes is expected


@pytest.mark.parametrize("ended", [[False, True], [True, False], None])
def test_best_hypotheses_that_the_limit_has_cut(ended: list[bool] | None, caplog: pytest.LogCaptureFixture) -> None:
    found = HypothesesOutput("output")
    beam = Dim(2, name="beam")
    labels = Tensor("output", [beam, Dim(1, name="found")], "int32", sparse_dim=Dim(3, name="labels"))
    labels.raw_tensor = numpy.array([[0], [1]], "int32")
    outputs = {
        "output": labels,
        "scores": Tensor("scores", [beam], "float32", raw_tensor=numpy.array([-1, -2], "float32")),
    }
    if ended is not None:
        outputs["ended"] = Tensor("ended", [beam], "bool", raw_tensor=numpy.array(ended))
    for tag in ("a", "b"):
        found.process_seq(seq_tag=tag, outputs=TensorDict(outputs))
    found.finish()
    assert ("2 of 2 best hypotheses had not ended" in caplog.text) == (ended == [False, True])


def test_a_label_that_is_none() -> None:
    with pytest.raises(ConfigError, match=r"the output 'output' has the label 3 in sequence 'seq'.\n .* labels 0 to 2"):
        HypothesesOutput("output").process_seq(seq_tag="seq", outputs=_labels([0, 3], "abc"))


def test_scores_that_are_no_numbers() -> None:
    raw = numpy.zeros((3, 2), "int32")
    outputs = TensorDict({"output": Tensor("output", [BEAM, FRAMES], "int32", sparse_dim=LABELS, raw_tensor=raw)})
    scores = numpy.array([0, numpy.nan, 0], "float32")
    outputs.data["scores"] = Tensor("scores", [BEAM], "float32", raw_tensor=scores)
    with pytest.raises(ConfigError, match="the output 'scores' is nan in sequence 'seq'"):
        HypothesesOutput("output").process_seq(seq_tag="seq", outputs=outputs)


def test_labels_are_those_of_the_references(caplog: pytest.LogCaptureFixture) -> None:
    templates = TensorDict({"classes": _labels([0], "abc")["output"]})
    seqs = [{"classes": numpy.zeros(1, "int32")}]
    data = init_dataset({"class": "StaticDataset", "data": seqs, "output_dim": {"classes": (3, 1)}})
    references = References(templates, "classes", data)
    with pytest.raises(ConfigError, match=r"labels of the output 'output' have no names.* with the data 'classes'"):
        HypothesesOutput("output", references).process_seq(seq_tag="seq", outputs=_labels([0], ""))
    forget_shown()
    HypothesesOutput("output", references).process_seq(seq_tag="seq", outputs=_labels([0], "abc"))
    assert caplog.text == ""
    HypothesesOutput("output", references).process_seq(seq_tag="seq", outputs=_labels([0], "xyz"))
    assert "not those of the data 'classes'; they are compared as texts" in caplog.text


@pytest.mark.parametrize(("dims", "shape"), [([], (1,)), ([LABELS], (1, 5)), ([FRAMES, LABELS], (2, 5))])
def test_what_has_no_frames_is_one_frame_of_an_hdf_file(
    dims: list[Dim], shape: tuple[int, ...], tmp_path: Path
) -> None:
    values = numpy.arange(10.0, dtype="float32")[: numpy.prod(shape)].reshape([dim.dimension for dim in dims])
    with rf.backend_ctx("numpy"):
        output = Tensor("output", dims, "float32", feature_dim=LABELS if dims else None, raw_tensor=values)
        hdf = HdfOutput(str(tmp_path / "out.hdf"), "output")
        hdf.process_seq(seq_tag="seq", outputs=TensorDict({"output": output}))
        hdf.finish()
    dataset = HDFDataset([str(tmp_path / "out.hdf")])
    dataset.initialize()
    dataset.init_seq_order(epoch=1)
    dataset.load_seqs(0, 1)
    found = dataset.get_data(0, "data")
    assert found.shape == shape
    numpy.testing.assert_array_equal(found.reshape(values.shape), values)


def _of_seqs(value: numpy.ndarray, dims: list[Dim], dtype: str = "float32", feature_dim: Dim | None = None) -> list:
    """:return: of an output of a batch, what the callback gets of each sequence"""
    output = Tensor("output", dims, dtype, feature_dim=feature_dim)
    lengths = {
        f"output:size{i}": Tensor("lengths", [batch_dim], "int32")
        for i, dim in enumerate(dims)
        if i and dim.size is None
    }
    values = {"output": value, **{name: numpy.array([2, 3], "int32") for name in lengths}}
    return list(each_seq(output_arrays({"output": output, **lengths}, values), 2))


def _in_hdf(folder: Path, seqs: list) -> list[numpy.ndarray]:
    callback = HdfOutput(str(folder / "out.hdf"), "output")
    for i, outputs in enumerate(seqs):
        callback.process_seq(seq_tag=f"seq-{i}", outputs=outputs)
    callback.finish()
    dataset = HDFDataset([str(folder / "out.hdf")])
    dataset.init_seq_order(epoch=1)
    dataset.load_seqs(0, 2)
    return [dataset.get_data(i, "data") for i in range(2)]


def test_file_has_features_last_wherever_they_were(tmp_path: Path) -> None:
    time, feature = Dim(None, name="time"), Dim(4, name="feature")
    value = numpy.arange(24, dtype="float32").reshape(2, 4, 3)
    first, second = _in_hdf(tmp_path, _of_seqs(value, [batch_dim, feature, time], feature_dim=feature))
    numpy.testing.assert_array_equal(first, value[0, :, :2].T)
    numpy.testing.assert_array_equal(second, value[1].T)


def test_what_has_another_size_in_each_sequence_is_no_feature_dim(tmp_path: Path) -> None:
    """Such as the weights of an attention of a sequence to itself, whose positions came in the place of features."""
    time, position = Dim(None, name="time"), Dim(None, name="position")
    value = numpy.arange(18, dtype="float32").reshape(2, 3, 3)
    seqs = _of_seqs(value, [batch_dim, time, position], feature_dim=position)
    assert seqs[0]["output"].feature_dim is None
    first, second = _in_hdf(tmp_path, seqs)
    numpy.testing.assert_array_equal(first.reshape(2, 2), value[0, :2, :2])
    numpy.testing.assert_array_equal(second.reshape(3, 3), value[1])


def test_bfloat16_is_float32_outside(tmp_path: Path) -> None:
    feature = Dim(4, name="feature")
    value = numpy.arange(8, dtype="float32").reshape(2, 4)  # as PyTorch's values come, and those of TensorFlow:
    for each in (value, tf.constant(value, tf.bfloat16).numpy()):
        seqs = _of_seqs(each, [batch_dim, feature], "bfloat16", feature_dim=feature)
        assert seqs[1]["output"].dtype == "float32"
        numpy.testing.assert_array_equal(numpy.concatenate(_in_hdf(tmp_path, seqs)), value)


def test_outputs_that_are_not_in_an_hdf_file_are_known(tmp_path: Path) -> None:
    with rf.backend_ctx("numpy"):
        hdf = HdfOutput(str(tmp_path / "out.hdf"), "output")
        score = Tensor("score", [], "float32", raw_tensor=numpy.zeros((), "float32"))
        hdf.process_seq(seq_tag="seq", outputs=TensorDict({**_labels([1], "abc").data, "score": score}))
        hdf.finish()
    assert hdf.left_out == ["score"]
