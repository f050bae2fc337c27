"""`returnn.load` of configs with `get_model`."""

import numpy
import pytest
import tensorflow as tf

import returnn
import returnn.__main__ as rnn
import returnn.frontend as rf
from returnn.config import set_global_config
from returnn.log import log
from returnn.util.backend_engine import BackendEngine
from returnn.util.behavior_version import BehaviorVersion
from returnn.util.errors import UserError
from tests.engine.frontend.small_model import time_dim

CONFIG = """#!rnn.py
from tests.engine.frontend import small_model
from tests.engine.frontend.small_model import EXTERN_DATA as extern_data, forward_step, get_model, train_step

behavior_version = 30
search_output_layer = "best"
model = "model/net"
max_seqs = 2
device = "cpu"
"""


@pytest.fixture(params=["torch", "tensorflow"])
def config(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo.config").write_text(f"{CONFIG}backend = {request.param!r}\n")
    before = BackendEngine.selected_engine
    BehaviorVersion.reset()
    assert rnn.main(["rnn.py", "demo.config", "++task", "initialize_model", "-v", "1"]) == 0
    for file in (tmp_path / "model").glob("net.000.*"):
        file.rename(str(file).replace(".000.", ".001."))
    yield "demo.config"
    BackendEngine.selected_engine = before
    BehaviorVersion.reset()
    set_global_config(None)
    rf.select_backend_numpy()
    log.initialize(verbosity=[5])
    tf.compat.v1.reset_default_graph()
    time_dim.reset_raw()


def test_a_batch_gives_what_single_inputs_give(config):
    model = returnn.load(config, epoch=1)
    arrays = [numpy.random.RandomState(i).normal(size=(9 + 7 * (i % 3), 9)) for i in range(5)]
    together, texts = model.forward(arrays), model.decode(arrays)
    assert [x.shape for x in together] == [(len(array), 2) for array in arrays]
    for array, output, text in zip(arrays, together, texts, strict=True):
        numpy.testing.assert_allclose(model.forward([array])[0], output, rtol=1e-4, atol=1e-6)
        assert text == " ".join(str(label) for label in output.argmax(-1))
        assert list(model.forward([array], layer="best")[0]) == [int(label) for label in text.split()]
    assert model.forward([]) == model.decode([]) == []
    with pytest.raises(UserError, match=r"forward: option 'layer': there is no output 'bset'\.\n  Did you mean 'best'"):
        model.forward(arrays, layer="bset")
    with pytest.raises(UserError, match=r"the input has the shape \[3\], but the model expects"):
        model.decode([[1, 2, 3]])
    model.close()


def test_parameters_of_an_unknown_epoch_are_of_the_last_one(config, tmp_path):
    for file in (tmp_path / "model").glob("net.001.*"):
        file.rename(str(file).replace("net.001.", "mean."))
    asked = "asked = []\nget_model = lambda *, epoch, **_kwargs: asked.append(epoch) or small_model.Model()\n"
    with (tmp_path / config).open("a") as file:
        file.write(f"load = 'model/mean'\nnum_epochs = 7\n{asked}")
    model = returnn.load(config)
    assert model.forward([numpy.ones((5, 9))])[0].shape == (5, 2)
    assert set(model.config.typed_value("asked")) == {7}
    model.close()


def test_nothing_is_found_in_empty_inputs(config):
    model = returnn.load(config, epoch=1)
    frames, none = numpy.ones((5, 9)), numpy.zeros((0, 9))
    (text,) = model.decode([frames])
    assert text
    assert model.decode([none, frames, none]) == ["", text, ""]
    with pytest.raises(UserError, match="input 0: it is empty"):
        model.forward([none])
    model.close()


def test_a_model_that_was_not_trained_is_said_at_once(config):
    with pytest.raises(UserError, match=r"there is no model to work on: 'other/net' has no checkpoint\."):
        returnn.load(config, model="other/net")
    with pytest.raises(UserError, match=r"there is no model of epoch 3\.\n  'model/net' has: 1\."):
        returnn.load(config, epoch=3)
