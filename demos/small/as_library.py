"""
RETURNN as a library: train in a script of your own, then decode with what was trained.

    python demos/small/as_library.py

The configuration is a dict. `Engine` trains on data sets, and a network can be asked for single sequences. One in a
file is loaded in one line, `returnn.load("my.config")`, see docs/python.md.

Reaches: error <= 0.05
"""

import small_data

from returnn.config import Config, set_global_config
from returnn.datasets import init_dataset
from returnn.log import log
from returnn.tf.engine import Engine

config = Config(
    {
        "behavior_version": 30,
        "extern_data": small_data.FRAMES,
        "network": {
            "lstm": {"class": "rec", "unit": "nativelstm2", "n_out": 32, "from": "data"},
            "output": {"class": "softmax", "from": "lstm", "target": "classes", "loss": "ce"},
        },
        "num_epochs": 4,
        "batch_size": 1000,
        "max_seqs": 10,
        "optimizer": {"class": "adam"},
        "learning_rate": 0.01,
        "model": "as_library/network",
    }
)
set_global_config(config)
log.initialize(verbosity=[3])
train = init_dataset(small_data.echoes(400, seed=1, seq_ordering="random"))
dev = init_dataset(small_data.echoes(50, seed=2))

engine = Engine(config=config)
engine.init_train_from_config(config=config, train_data=train, dev_data=dev)
engine.train()

dev.init_seq_order(epoch=1)
num_wrong = num_frames = 0
for seq_idx in range(dev.num_seqs):
    dev.load_seqs(seq_idx, seq_idx + 1)
    probabilities = engine.forward_single(dev, seq_idx)  # (T, letters)
    letters = dev.get_data(seq_idx, "classes")  # (T,)
    num_wrong += (probabilities.argmax(axis=-1) != letters).sum()
    num_frames += len(letters)
engine.finalize()
print(f"error: {num_wrong / num_frames:.4f}")
