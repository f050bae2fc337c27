"""`batch_size = "auto"` with layers: found by steps that change nothing, kept, and the same as the number."""

from __future__ import annotations

import pytest

from returnn.datasets.core.registry import init_dataset
from returnn.tf.engine import Engine
from returnn.util.errors import UserError
from tests.tf.engine import small_config

SMALL_MEMORY = 600  # frames of a batch, with padding


def train(folder, **options):
    network = {
        "limited": {"class": "eval", "from": "data", "eval": small_config.limited(options.pop("limit", SMALL_MEMORY))},
        "hidden": {
            "class": "linear", "activation": "tanh", "n_out": 3, "from": "limited", "dropout": 0.2, "batch_norm": True,
        },
        "output": {"class": "softmax", "from": "hidden", "loss": "ce", "target": "classes"},
    }  # fmt: skip
    folder.mkdir()
    config = small_config.config(folder, network=network, max_seqs=100, **options)
    data = {"class": "Task12AXDataset", "num_seqs": 60, "fixed_random_seed": 1}
    engine = Engine(config)
    engine.init_train_from_config(config, train_data=init_dataset(data))
    engine.train()
    engine.finalize()
    return config, small_config.parameters(folder / "net.001")


def test_found_kept_and_the_same_as_the_number(tmp_path):
    config, found = train(tmp_path / "auto", batch_size="auto", auto_batch_size={"start": 100}, num_epochs=1)
    size = config.typed_dict["batch_size"]
    assert 0.6 * SMALL_MEMORY < size <= SMALL_MEMORY
    assert (tmp_path / "auto" / "net.batch_size").read_text().endswith(f": {size}}}\n")
    small_config.assert_same(found, train(tmp_path / "number", batch_size=size)[1])  # also running statistics


def test_not_even_one_sequence_fits(tmp_path):
    with pytest.raises(UserError, match="not even one sequence fits"):
        train(tmp_path / "auto", batch_size="auto", limit=1)


def test_a_step_that_does_not_fit_says_which_layers_are_large(tmp_path):
    with pytest.raises(UserError, match="memory is not enough: MemoryError: not enough") as caught:
        train(tmp_path / "run", batch_size=1000, limit=10)
    text = str(caught.value)
    assert "train, epoch 1, step 0, sequences 'seq-0'" in text
    assert "is done with the whole batch, as statistics over it are" in text
    assert "Largest outputs of layers: 'data' [" in text or "Largest outputs of layers: 'limited' [" in text
    assert len(text.splitlines()) <= 5
