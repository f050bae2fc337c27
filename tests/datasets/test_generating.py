from __future__ import annotations

import math

import numpy as np
import pytest

from returnn.datasets import generating
from returnn.datasets.core.dataset_seq import DatasetSeq
from returnn.datasets.core.errors import DataError
from returnn.datasets.core.registry import init_dataset
from returnn.datasets.generating import (
    StaticDataset,
    Task12AXDataset,
    TaskEpisodicCopyDataset,
    TaskNumberBaseConvertDataset,
    TaskVariableAssignmentDataset,
    TaskXmlModelingDataset,
)
from returnn.util.errors import ConfigError

from .corpus_checks import assert_equal_seqs, seqs_of_epoch


def test_12ax_by_hand():
    assert Task12AXDataset.make_output_seq("1AXBYCX2AXBY3AX1BCX") == "LLRLLLLLLLLRLLLLLLL"


def test_12ax_has_enough_of_both_outputs():
    dataset = Task12AXDataset(num_seqs=1)
    left, right = dataset.estimate_output_class_priors(200, seq_len=50)
    assert left + right == pytest.approx(1)
    assert 0.15 < right < 0.4


def test_12ax_sequences_follow_the_rule():
    dataset = Task12AXDataset(num_seqs=20)
    dataset.init_seq_order(1)
    for _, data in seqs_of_epoch(dataset):
        symbols = "".join(dataset.labels["data"][i] for i in data["data"].argmax(axis=1))
        assert dataset.serialize_data("classes", data["classes"]) == dataset.make_output_seq(symbols)
        assert (data["data"].sum(axis=1) == 1).all()


def test_number_and_keys_of_data_before_the_first_epoch():
    dataset = Task12AXDataset(num_seqs=3)
    assert dataset.num_seqs == 3
    assert dataset.get_data_keys() == ["data", *dataset.get_target_list()] == ["data", "classes"]
    dataset.init_seq_order(1, seq_order=[2, 0])
    assert dataset.num_seqs == 2
    assert Task12AXDataset().num_seqs == float("inf")


def test_episodic_copy_by_hand():
    assert TaskEpisodicCopyDataset.make_output_seq("AB..|..CD.|..") == ".....AB....CD"


def test_number_in_another_base():
    dataset = TaskNumberBaseConvertDataset(input_base=8, output_base=2)
    assert dataset.make_output_seq("17") == "1111"
    assert dataset.make_output_seq("0") == "0"
    assert TaskNumberBaseConvertDataset(input_base=2, output_base=16).make_output_seq("11111111") == "ff"
    with pytest.raises(ConfigError, match="option 'output_base': 1 is not between 2 and 36"):
        TaskNumberBaseConvertDataset(output_base=1)


def test_asked_value_is_the_assigned_one():
    dataset = TaskVariableAssignmentDataset(num_seqs=30)
    for _ in range(30):
        text = dataset.generate_input_seq()
        assignments, question = text.split("?")
        name, value = question[1:-1].split(")")
        assert f"{name}={value}," in assignments


@pytest.mark.parametrize("depth", [1, 3])
def test_xml_tags_are_closed_and_not_too_deep(depth):
    dataset = TaskXmlModelingDataset(limit_stack_depth=depth, num_seqs=30)
    for _ in range(30):
        stack, deepest = [], 0
        for tag in dataset.generate_input_seq()[1:-1].split("><"):
            if tag.startswith("/"):
                assert stack.pop() == tag[1:]
            else:
                stack.append(tag)
            deepest = max(deepest, len(stack))
        assert not stack
        assert deepest <= depth


def test_copy_task_copies():
    dataset = init_dataset({"class": "CopyTaskDataset", "nsymbols": 5, "minlen": 2, "maxlen": 4, "num_seqs": 10})
    dataset.init_seq_order(1)
    for _, data in seqs_of_epoch(dataset):
        half = len(data["classes"]) // 2
        assert 2 <= half <= 4
        assert data["data"].argmax(axis=1)[:half].tolist() == data["classes"][half:].tolist()
        assert not data["classes"][:half].any()


def test_copy_task_grows_with_the_epochs():
    options = {"class": "CopyTaskDataset", "nsymbols": 5, "minlen_epoch_factor": 2, "maxlen_epoch_factor": 2}
    dataset = init_dataset({**options, "num_seqs": 3, "fixed_random_seed": 1})
    dataset.init_seq_order(3)
    assert {len(data["classes"]) for _, data in seqs_of_epoch(dataset)} == {12}


def test_dummy_features_count_up_around_zero():
    dataset = init_dataset({"class": "DummyDataset", "input_dim": 3, "output_dim": 4, "num_seqs": 2, "seq_len": 2})
    dataset.init_seq_order(1)
    (_, first), (_, second) = seqs_of_epoch(dataset)
    np.testing.assert_allclose(first["data"], [[-0.5, -0.4, -0.3], [-0.2, -0.1, 0.0]], atol=1e-6)
    assert first["classes"].tolist() == [2, 3]
    np.testing.assert_allclose(second["data"].reshape(-1)[:-1], first["data"].reshape(-1)[1:], atol=1e-6)


@pytest.mark.parametrize(("options", "expected"), [
    ({"input_max_value": 4}, [[-0.5, -0.25], [0, 0.25], [-0.5, -0.25]]),
    ({"input_max_value": 4, "input_shift": 0}, [[0, 0.25], [0.5, 0.75], [0, 0.25]]),
    ({"input_max_value": 4, "input_scale": 1}, [[-2, -1], [0, 1], [-2, -1]]),
    ({"input_max_value": 4, "input_scale": 2, "input_shift": 1}, [[2, 4], [6, 8], [2, 4]]),
])  # fmt: skip
def test_range_of_dummy_features(options, expected):
    dataset = init_dataset(
        {"class": "DummyDataset", "input_dim": 2, "output_dim": 4, "num_seqs": 1, "seq_len": 3, **options}
    )
    dataset.init_seq_order(1)
    np.testing.assert_allclose(seqs_of_epoch(dataset)[0][1]["data"], expected)


@pytest.mark.parametrize(("option", "value", "message"), [
    ("input_max_value", 0, "0 is not positive"),
    ("input_max_value", -1.5, "-1.5 is not positive"),
])  # fmt: skip
def test_dummy_features_without_a_range_are_an_error(option, value, message):
    with pytest.raises(ConfigError, match=f"DummyDataset: option '{option}': {message}"):
        init_dataset({"class": "DummyDataset", "input_dim": 2, "output_dim": 4, "num_seqs": 1, option: value})


@pytest.mark.parametrize(("seq_lens", "lens"), [
    (None, {"data": range(10, 21), "classes": range(10, 21)}),
    (3, {"data": [3], "classes": [3]}),
    ((2, 4), {"data": [2, 3, 4], "classes": [2, 3, 4]}),
    ([2, 4], {"data": [2, 3, 4], "classes": [2, 3, 4]}),
    ({"data": 5, "classes": (1, 2)}, {"data": [5], "classes": [1, 2]}),
    ({"data": 5}, {"data": [5], "classes": range(10, 21)}),
])  # fmt: skip
def test_lengths_of_random_data(seq_lens, lens):
    template = {"data": {"dim": 3}, "classes": {"dim": 5, "sparse": True}}
    dataset = init_dataset(
        {"class": "DummyGenericDataset", "data_template": template, "num_seqs": 100, "seq_lens": seq_lens}
    )
    dataset.init_seq_order(1)
    seqs = seqs_of_epoch(dataset)
    assert {key: sorted({len(data[key]) for _, data in seqs}) for key in lens} == {k: list(v) for k, v in lens.items()}


@pytest.mark.parametrize(("seq_lens", "message"), [
    ((4, 2), r"\(4, 2\) is no length"),
    ({"data": "long"}, "'long' is no length"),
    ({"date": 3}, "there is no data key 'date'"),
])  # fmt: skip
def test_wrong_lengths_of_random_data(seq_lens, message):
    options = {"class": "DummyGenericDataset", "data_template": {"data": {"dim": 3}}, "num_seqs": 2}
    with pytest.raises(ConfigError, match=f"DummyGenericDataset: option 'seq_lens': {message}"):
        init_dataset({**options, "seq_lens": seq_lens})


def test_number_of_digits():
    dataset = TaskNumberBaseConvertDataset(num_seqs=50, min_input_seq_len=2, max_input_seq_len=4)
    dataset.init_seq_order(1)
    assert {len(data["data"]) for _, data in seqs_of_epoch(dataset)} == {2, 3, 4}
    for low, high in [(3, 2), (0, 2)]:
        with pytest.raises(ConfigError, match=f"options 'min_input_seq_len' and 'max_input_seq_len': {low} to {high}"):
            TaskNumberBaseConvertDataset(min_input_seq_len=low, max_input_seq_len=high)


def test_number_of_features_in_memory():
    frames = [[1.0, 2.0, 3.0]]
    dataset = StaticDataset([{"data": frames, "classes": [1]}], input_dim=3)
    assert (dataset.num_inputs, dataset.num_outputs["data"]) == (3, (3, 2))
    assert StaticDataset([{"data": np.array(frames)}], input_dim=3, output_dim={"data": (4, 2)}).num_inputs == 4
    labels = StaticDataset([{"data": np.array([3, 0])}], input_dim=9)
    assert (labels.get_data_dim("data"), labels.is_data_sparse("data")) == (9, True)
    wrong = StaticDataset([{"data": np.array(frames)}], input_dim=4)
    wrong.init_seq_order(1)
    with pytest.raises(DataError, match="feature dimension is 3, expected 4"):
        seqs_of_epoch(wrong)
    with pytest.raises(ConfigError, match="option 'input_dim': there is no data key 'data'"):
        StaticDataset([{"x": np.array(frames)}], input_dim=3)


def test_endless_dataset():
    dataset = init_dataset({"class": "Task12AXDataset"})
    dataset.init_seq_order(1)
    assert dataset.num_seqs == math.inf
    assert dataset.is_less_than_num_seqs(10**9)
    dataset.load_seqs(10**9, 10**9 + 1)
    assert dataset.get_tag(10**9) == f"seq-{10**9}"


def test_new_sequences_in_each_full_epoch_unless_the_seed_is_fixed():
    options = {"class": "Task12AXDataset", "num_seqs": 3}
    for fixed, same in [(None, False), (1, True)]:
        dataset = init_dataset({**options, "fixed_random_seed": fixed})
        data = []
        for epoch in (1, 2):
            dataset.init_seq_order(epoch)
            data.append([seq["data"].tolist() for _, seq in seqs_of_epoch(dataset)])
        assert (data[0] == data[1]) == same


def test_user_defined_task():
    class Squares(generating.GeneratingDataset):
        """As in a config."""

        def __init__(self, **kwargs):
            super().__init__(input_dim=1, output_dim=100, num_seqs=5, **kwargs)

        def generate_seq(self, seq_idx):
            numbers = self.random.randint(10, size=(seq_idx + 1, 1))
            return DatasetSeq(seq_idx, numbers.astype("float32"), targets=numbers[:, 0] ** 2)

    dataset = init_dataset({"class": Squares, "seq_ordering": "sorted_reverse"})
    dataset.init_seq_order(1)
    seqs = seqs_of_epoch(dataset)
    assert [tag for tag, _ in seqs] == [f"seq-{i}" for i in (4, 3, 2, 1, 0)]
    assert all((data["data"][:, 0] ** 2 == data["classes"]).all() for _, data in seqs)


def test_copy_of_a_dataset_into_memory():
    dataset = init_dataset({"class": "DummyDataset", "input_dim": 3, "output_dim": 4, "num_seqs": 5})
    dataset.init_seq_order(1)
    copy = StaticDataset.copy_from_dataset(dataset, start_seq_idx=1, max_seqs=3)
    copy.init_seq_order(1)
    assert_equal_seqs(seqs_of_epoch(copy), seqs_of_epoch(dataset)[1:4])


def test_demo_prints_sequences(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["generating", "TaskNumberBaseConvertDataset:num_seqs=2"])
    generating.demo()
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "seq-0:"
    assert out[1].startswith("  data: ")
    assert len(out) == 6
