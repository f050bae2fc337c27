"""Sequences cut into chunks, and put together again."""

from __future__ import annotations

import numpy
import pytest

from returnn.tensor import Dim
from returnn.util.errors import ConfigError
from tests.tf.layers.layer_net import LENGTHS, LayerNet, batch_of

SIZES = [(1, 1), (3, 2), (2, 3), (4, 4), (7, 2), (10, 3)]
SQUARED = {"class": "eval", "eval": "source(0) ** 2", "from": "chunks"}


def chunked(size, step, **options):
    return {"class": "time_chunking", "chunk_size": size, "chunk_step": step, "from": "data", **options}


@pytest.mark.parametrize("time_major", [False, True])
@pytest.mark.parametrize(("size", "step"), SIZES)
def test_chunks_and_their_means_are_those_by_hand(size, step, time_major):
    back = {"class": "time_unchunking", "chunking_layer": "chunks", "from": "squared"}
    net = LayerNet({"chunks": chunked(size, step), "squared": SQUARED, "back": back}, time_major=time_major)
    batch = batch_of()
    fed = {key: x.swapaxes(0, 1) if time_major and key in ("data", "image", "ids") else x for key, x in batch.items()}
    found = net.run(fed)
    chunks, back = (numpy.moveaxis(found[name], net.outputs[name].time_dim_axis, 1) for name in ("chunks", "back"))
    count = max(max(LENGTHS) - size + step - 1, 0) // step + 1
    assert len(chunks) == len(LENGTHS) * count
    for b, length in enumerate(LENGTHS):
        frames = batch["data"][b, :length]
        total, number = numpy.zeros_like(frames), numpy.zeros([length, 1])
        for i in range(count):
            chunk = frames[i * step : i * step + size]
            numpy.testing.assert_array_equal(chunks[b * count + i, : len(chunk)], chunk)
            assert not chunks[b * count + i, len(chunk) :].any()  # no valid frame is there
            total[i * step : i * step + size] += chunk**2
            number[i * step : i * step + size] += 1
        numpy.testing.assert_allclose(back[b, :length], total / numpy.maximum(number, 1), rtol=1e-5)


def test_the_dim_of_the_frames_can_be_named():
    frames = Dim(None, name="frames of a chunk")
    layers = {
        "chunks": chunked(3, 2, out_dim=frames),
        "sums": {"class": "reduce", "mode": "sum", "axis": frames, "from": "chunks"},
        "wanted": {"class": "reduce", "mode": "sum", "axis": "T", "from": "chunks"},
    }
    found = LayerNet(layers).run(batch_of())
    assert numpy.isfinite(found["sums"]).all()
    numpy.testing.assert_array_equal(found["sums"], found["wanted"])


def test_another_axis_than_time_comes_back():
    layers = {
        "chunks": chunked(3, 2, axis="static:0", **{"from": "data:image"}),
        "back": {"class": "time_unchunking", "chunking_layer": "chunks", "from": "chunks"},
        "image": {"class": "copy", "from": "data:image"},
    }
    net = LayerNet(layers)
    found = net.run(batch_of())
    back, image = (net.outputs[name].copy_template().copy_as_batch_major() for name in ("back", "image"))
    assert back.dims_set == image.dims_set
    order = [back.dims.index(dim) for dim in image.dims]
    numpy.testing.assert_allclose(found["back"].transpose(order), found["image"], rtol=1e-6)


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ({"chunks": chunked(0, 2)}, "layer 'chunks' .*option 'chunk_size': expected at least 1, got 0"),
        ({"chunks": chunked(3, -1)}, "layer 'chunks' .*option 'chunk_step': expected at least 1, got -1"),
        (
            {
                "chunks": chunked(3, 2),
                "back": {"class": "time_unchunking", "chunking_layer": "chunks", "from": "data"},
            },
            r"layer 'back' .*: the source has to have chunks of 'chunks' and their frames, .*\n  Source: 'data'",
        ),
        (
            {
                "chunks": chunked(3, 2),
                "means": {"class": "reduce", "mode": "mean", "axis": "T", "from": "chunks"},
                "back": {"class": "time_unchunking", "chunking_layer": "chunks", "from": "means"},
            },
            r"layer 'back' .*: the source has to have chunks of 'chunks' and their frames, .*\n  Source: 'means'",
        ),
    ],
)
def test_errors(layers, message):
    with pytest.raises(ConfigError, match=message):
        LayerNet(layers)
