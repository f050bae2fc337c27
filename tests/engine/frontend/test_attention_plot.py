"""Pictures of the attention of models in Python: that of `demos/g2p`, on both backends."""

import importlib
import os
import sys

import numpy
import pytest
import tensorflow as tf

import returnn.frontend as rf
from returnn.config import Config, set_global_config
from returnn.engine.frontend import attention_plot
from returnn.log import log
from returnn.tasks import find_task
from returnn.util.backend_engine import BackendEngine
from returnn.util.errors import ConfigError

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
WORDS = {"ab": [2, 3], "c": [4]}


def options(folder, backend, **plot):
    sys.path.insert(0, os.path.join(ROOT, "demos", "g2p"))
    try:
        demo = importlib.import_module("g2p_rf")
    finally:
        sys.path.pop(0)
    data = [{"data": numpy.array(ids, "int32"), "seq_tag": tag} for tag, ids in WORDS.items()]
    sizes = {"embedding": 3, "encoder": 4, "decoder": 5, "attention": 3}
    return {
        "backend": backend, "task": "plot_attention", "device": "cpu", "allow_random_model_init": True,
        "dev": {"class": "StaticDataset", "data": data, "output_dim": {"data": (28, 1)}},
        "extern_data": {
            "data": demo.EXTERN_DATA["data"],
            "classes": {**demo.EXTERN_DATA["classes"], "available_for_inference": False},
        },
        "get_model": lambda **_: demo.Model(**sizes, encoder_dropout=0.0, output_dropout=0.0),
        "forward_step": demo.forward_step, "beam_size": 2, "length_normalization_exponent": 0.0,
        "model": str(folder / "net"), "attention_plot": {"layer": "weights", **plot},
    }  # fmt: skip


@pytest.fixture
def pictures(monkeypatch):
    """:return: what is drawn, by name of the file"""
    log.initialize(verbosity=[3])
    found, engine = {}, BackendEngine.selected_engine
    monkeypatch.setattr(
        attention_plot,
        "draw_attention",
        lambda name, weights, **more: found.update({os.path.basename(name): (weights, more)}),
    )
    yield found
    set_global_config(None)
    rf.select_backend_numpy()
    BackendEngine.selected_engine = engine
    tf.compat.v1.reset_default_graph()


def plot(options):
    config = Config(options)
    set_global_config(config)
    BackendEngine.select_engine(config=config)
    find_task("plot_attention", config)()


@pytest.mark.parametrize("backend", ["torch", "tensorflow"])
def test_rows_are_distributions_over_the_letters(backend, tmp_path, pictures):
    plot(options(tmp_path, backend, source="data", target="best", names={"data": "letters"}))
    assert set(pictures) == {"ab.png", "c.png"}
    for tag in WORDS:
        weights, more = pictures[f"{tag}.png"]
        assert more["source"].name == "letters"
        assert more["source"].labels == list(tag)
        assert weights.shape == (1, len(more["target"].labels), len(tag))
        numpy.testing.assert_allclose(weights.sum(axis=-1), 1.0, rtol=1e-5)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"layer": "weigths"}, "there is no output 'weigths'"),
        ({"layer": "best"}, "Expected attention weights: the last two dims are the rows and the columns"),
        ({"source": "best"}, "source: 'best' has values of the shape"),
        ({"target": "phonemes"}, "target: there is no output or data key 'phonemes'"),
        ({"search": True}, "'search' is for networks of layers"),
    ],
)
def test_error_texts(given, text, tmp_path, pictures):
    with pytest.raises(ConfigError, match=text):
        plot(options(tmp_path, "torch", **given))
