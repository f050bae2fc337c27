import pytest

from returnn.config import Config
from returnn.engine.batch_options import DEFAULT_BATCH_SIZE, batch_limits
from returnn.util.errors import ConfigError
from returnn.util.numbers.numbers_dict import NumbersDict

OPTIONS = {
    "batch_size": {"data": 500, "classes": 50}, "eval_batch_size": 900, "max_seqs": 7, "max_pad_size": 30,
    "max_total_num_seqs": 5, "max_seq_length": {"classes": 20}, "min_seq_length": 2, "seq_drop": 0.1,
}  # fmt: skip


def test_training_has_all_limits():
    limits = batch_limits(Config(OPTIONS), train=True)
    assert limits == {key: value for key, value in OPTIONS.items() if key != "eval_batch_size"}


def test_evaluation_has_all_sequences():
    limits = batch_limits(Config(OPTIONS), train=False)
    assert limits == {"batch_size": 900, "max_seqs": 7, "max_pad_size": 30, "max_total_num_seqs": 5}


def test_evaluation_with_the_sequences_that_training_could_have():
    limits = batch_limits(Config(OPTIONS), train=False, filters=True)
    assert (limits["max_seq_length"], limits["min_seq_length"]) == ({"classes": 20}, 2)
    assert "seq_drop" not in limits


def test_defaults_and_text():
    assert batch_limits(Config({}), train=True) == {"batch_size": DEFAULT_BATCH_SIZE}
    config = Config()
    config.add_line("batch_size", "300")
    config.add_line("seq_drop", "0.5")
    assert batch_limits(config, train=True) == {"batch_size": 300, "seq_drop": 0.5}


def test_sequences_may_be_longer_in_later_epochs():
    config = Config({"max_seq_length": 10, "inc_seq_length": 5})
    lengths = [NumbersDict(batch_limits(config, train=True, epoch=epoch)["max_seq_length"]) for epoch in (1, 2, 4)]
    assert [length.value for length in lengths] == [10, 15, 25]
    config.set("max_seq_length", {"classes": 10})
    assert batch_limits(config, train=True, epoch=2)["max_seq_length"]["classes"] == 15


@pytest.mark.parametrize(
    ("value", "name"), [("many", "batch_size"), ([1, 2], "batch_size"), ({"data": "x"}, "max_seqs")]
)
def test_wrong_numbers(value, name):
    with pytest.raises(
        ConfigError, match=rf"option '{name}': got .*, but expected a number from 0 .*a dict: data key -> "
    ):
        batch_limits(Config({name: value}), train=True)
