"""Which epoch it is, and whose network belongs to it."""

import pytest

from returnn.config import Config
from returnn.engine.epochs import Epochs, epoch_of_network, with_epoch

NETWORK = {
    "h0": {"class": "linear", "from": "data", "n_out": 3},
    "h1": {"class": "linear", "from": "h0", "n_out": 3},
    "output": {"class": "softmax", "from": "h1"},
}


@pytest.mark.parametrize(
    ("options", "epoch_of_model", "wanted"),
    [
        ({"num_epochs": 7}, None, 7),
        ({"num_epochs": 7}, 3, 3),
        ({"num_epochs": 7}, 0, 1),  # a model before the training
        ({"num_epochs": 0}, None, 1),
        ({"num_epochs": 2, "pretrain": {"repetitions": 3}}, None, 7),
        ({"num_epochs": 9, "pretrain": {"repetitions": 3}}, None, 9),
    ],
)
def test_whose_network_a_task_takes(options, epoch_of_model, wanted):
    assert epoch_of_network(Config({"network": NETWORK, **options}), epoch_of_model) == wanted


def test_a_training_begins_with_the_first_network():
    epochs = Epochs(Config({"network": NETWORK, "num_epochs": 7}))
    assert epochs.of_network == 1
    epochs.current = 5
    assert epochs.of_network == 5


def test_text_without_an_epoch_that_is_not_known():
    assert with_epoch("dev", 3) == "dev epoch 3"
    assert with_epoch("dev", 0) == with_epoch("dev", 0, separator=", ") == "dev"
