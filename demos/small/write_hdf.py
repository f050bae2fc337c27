"""
Write data into an HDF file, and read it as a data set.

    python demos/small/write_hdf.py

Any arrays can be trained on like that: frames of features, labels, or both, with a name for each sequence.

Reaches: error <= 0
"""

import os

import numpy
import small_data

from returnn.datasets import init_dataset
from returnn.datasets.hdf import SimpleHDFWriter

seqs = small_data.echoes(20, seed=1)["data"]

# Write. `dim` and `ndim` are those of "data", with frames; `extra_type` has the other data keys: size, axes, type.

os.makedirs("write_hdf", exist_ok=True)
types = {"classes": (small_data.NUM_LETTERS, 1, "int32")}
with SimpleHDFWriter("write_hdf/seqs.hdf", dim=small_data.NUM_FEATURES, ndim=2, extra_type=types) as writer:
    for i, seq in enumerate(seqs):
        frames, letters = seq["data"][None], seq["classes"][None]  # with a batch axis, here of one sequence
        writer.insert_batch(frames, [frames.shape[1]], [f"seq-{i}"], extra={"classes": letters})

# Read.

dataset = init_dataset({"class": "HDFDataset", "files": ["write_hdf/seqs.hdf"]})
dataset.init_seq_order(epoch=1)
dataset.load_seqs(0, len(seqs))
print("inputs and labels, (size, number of axes):", dataset.num_outputs)
num_wrong = 0
for i, seq in enumerate(seqs):
    assert dataset.get_tag(i) == f"seq-{i}"
    num_wrong += sum(not numpy.array_equal(dataset.get_data(i, key), seq[key]) for key in ("data", "classes"))
print(f"error: {num_wrong / len(seqs):.4f}")
