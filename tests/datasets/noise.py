"""Functions of configs that add noise to sequences. Processes of data sets import them without TensorFlow."""

import numpy as np


def add_noise(seq, *, rng, **_kwargs):
    data = seq.data["data"]
    data.raw_tensor = data.raw_tensor + rng.normal(size=data.raw_tensor.shape).astype("float32")
    return seq


def add_global_noise(seq, **_kwargs):
    return add_noise(seq, rng=np.random)


def add_noise_to_all(seqs, *, rng, **_kwargs):
    for seq in seqs:
        yield add_noise(seq, rng=rng)
