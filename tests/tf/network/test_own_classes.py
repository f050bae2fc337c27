"""Layer and loss classes of users, as they stand in configs: on raw tensors, derived from ours, with state in loops."""

import numpy
import pytest
import tensorflow as tf

from returnn.config import global_config_ctx
from returnn.tf.inspection.config_check import check_config
from returnn.util.errors import ConfigError
from tests.tf.network.old_config import LENGTHS, ConfigNet, load

HEAD = """
extern_data = {
    "data": {"dim": 6, "shape": (None, 6)},
    "classes": {"dim": 5, "shape": (None,), "sparse": True, "available_for_inference": True},
}
import tensorflow as tf
from returnn.tf.layers.basic import LinearLayer, _ConcatInputLayer, LayerBase, register_layer_class, register_loss_class
from returnn.tf.layers.rec import RnnCellLayer
from returnn.tf.layers.base import Loss
"""
DATA = numpy.random.RandomState(5).normal(size=(3, 7, 6)).astype("float32")
LABELS = numpy.random.RandomState(6).randint(0, 5, size=(3, 7))


def net_of(text, **options):
    return ConfigNet(HEAD + text, **options)


def in_loop(**layers):
    """:return: net dict with these layers in a loop over the data"""
    return {"output": {"class": "rec", "from": "data", "unit": layers}}


def assert_frames_close(actual, expected, **options):
    for one, other, length in zip(actual, expected, LENGTHS, strict=True):
        numpy.testing.assert_allclose(one[:length], other[:length], rtol=1e-4, atol=1e-5, **options)


# Derived from a class of ours.

SCALED_LINEAR = """
class ScaledLinear(LinearLayer):
    layer_class = "scaled_linear"

    def __init__(self, factor=2.0, **kwargs):
        super().__init__(**kwargs)
        self.weights = self.params["W"]
        self.output.placeholder = self.output.placeholder * factor

register_layer_class(ScaledLinear)
network = {}
"""


def test_output_is_there_after_init_of_our_class():
    layer = {"class": "scaled_linear", "from": "data", "n_out": 4, "factor": 3.0, "bias_init": 0.5}
    copy = {"class": "linear", "from": "data", "n_out": 4, "reuse_params": "output", "is_output_layer": True}
    net = net_of(SCALED_LINEAR, network={"output": layer, "plain": copy})
    out, plain = net.run(["output", "plain"], values={"data": DATA})
    numpy.testing.assert_allclose(out, 3 * plain, rtol=1e-5)
    assert net.net.get_layer("output").weights is net.net.get_layer("output").params["W"]
    assert sorted(p.op.name for p in net.net.get_params_list()) == ["output/W", "output/b"]


def test_init_of_our_class_called_by_its_name():
    text = SCALED_LINEAR.replace("super().__init__(**kwargs)", "LinearLayer.__init__(self, **kwargs)")
    text = text.replace('self.weights = self.params["W"]', "")
    layer = {"class": "scaled_linear", "n_out": 4}
    assert net_of(text, network={"output": {**layer, "from": "data"}}).run().shape == (3, 7, 4)
    assert net_of(text, network=in_loop(output={**layer, "from": "data:source"})).run().shape == (3, 7, 4)


def test_class_itself_in_a_subnetwork():
    text = SCALED_LINEAR.replace(
        "network = {}",
        """
network = {"output": {"class": "subnetwork", "from": "data", "subnetwork": {
    "output": {"class": ScaledLinear, "from": "data", "n_out": 4}}}}""",
    )
    assert net_of(text).run().shape == (3, 7, 4)


def test_derived_class_in_a_loop_with_its_own_past():
    layer = {"class": "scaled_linear", "from": ["data:source", "prev:output"], "n_out": 4, "factor": 0.5}
    net = net_of(SCALED_LINEAR, network=in_loop(output={**layer, "activation": None}))
    out = net.run(values={"data": DATA})
    params = {param.op.name: param for param in net.net.get_params_list()}
    weights, bias = net.run([params["output/rec/output/W"], params["output/rec/output/b"]])
    before, expected = numpy.zeros((3, 4)), []
    for t in range(7):
        before = 0.5 * (numpy.concatenate([DATA[:, t], before], axis=-1) @ weights + bias)
        expected.append(before)
    assert_frames_close(out, numpy.stack(expected, axis=1))


def test_derived_class_which_only_changes_options():
    text = """
class Tanh(LinearLayer):
    layer_class = "tanh_linear"
    def __init__(self, size, **kwargs):
        super(Tanh, self).__init__(activation="tanh", n_out=size, **kwargs)

register_layer_class(Tanh)
network = {}
"""
    layer = {"class": "tanh_linear", "from": "data", "size": 3}
    assert net_of(text, network={"output": layer}).run().shape == (3, 7, 3)
    assert net_of(text, network=in_loop(output={**layer, "from": "data:source"})).run().shape == (3, 7, 3)


def test_derived_class_with_state():
    text = """
class Cell(RnnCellLayer):
    layer_class = "my_cell"
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.output.placeholder = -self.output.placeholder

register_layer_class(Cell)
network = {}
"""
    cell = {"class": "my_cell", "unit": "lstmblock", "from": "data:source", "n_out": 4}
    plain = {**cell, "class": "rnn_cell", "reuse_params": "output", "is_output_layer": True}
    net = net_of(text, network=in_loop(output=cell, plain=plain))
    out, expected = net.run(["output", "output/plain"], values={"data": DATA})
    numpy.testing.assert_allclose(out, -expected)


def test_derived_class_with_its_own_template():
    text = """
class Last(LinearLayer):
    layer_class = "last"
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        output = self.output.copy_as_time_major()
        self.output = output.copy_template_excluding_time_dim()
        self.output.placeholder = output.placeholder[0]

    @classmethod
    def get_out_data_from_opts(cls, **kwargs):
        return super().get_out_data_from_opts(**kwargs).copy_template_excluding_time_dim()

register_layer_class(Last)
network = {}
"""
    layer = {"class": "last", "from": "data", "n_out": 4}
    assert net_of(text, network={"output": layer}).run().shape == (3, 4)
    unit = {"output": {"class": "combine", "kind": "add", "from": ["last", "prev:output"], "initial_output": 0}}
    unit["last"] = {**layer, "from": "base:data"}
    assert net_of(text, network=in_loop(**unit)).run().shape == (3, 7, 4)
    without_init = text.replace("__init__", "unused")
    with pytest.raises(
        ConfigError, match=r"^layer 'output' \(class 'last'\): `get_out_data_from_opts` says .* but the"
    ):
        net_of(without_init, network={"output": layer})


def test_derived_class_with_its_own_compute():
    text = """
import returnn.frontend as rf
class Half(LinearLayer):
    layer_class = "half"
    def __init__(self, factor, **kwargs):
        super().__init__(**kwargs)
        self.factor = factor
    def compute(self, source):
        return super().compute(source) * self.factor

register_layer_class(Half)
network = {}
"""
    layer = {"class": "half", "from": "data:source", "n_out": 4, "factor": 0.0}
    out = net_of(text, network=in_loop(output=layer)).run()
    numpy.testing.assert_array_equal(out, numpy.zeros((3, 7, 4)))


# State in a loop.

SUM = """
class Sum(_ConcatInputLayer):
    layer_class = "my_sum"

    def __init__(self, by=1.0, start=0.0, **kwargs):
        super().__init__(**kwargs)
        before = self._rec_previous_layer.rec_vars_outputs
        assert self.input_data.placeholder.shape.ndims == before["sum"].shape.ndims == 2
        self.rec_vars_outputs["sum"] = before["sum"] + self.input_data.placeholder * by
        self.rec_vars_outputs["number"] = before["number"] + 1
        self.output.placeholder = self.rec_vars_outputs["sum"]

    @classmethod
    def get_out_data_from_opts(cls, name, sources, **kwargs):
        return sources[0].output.copy_template(name="%s_output" % name)

    @classmethod
    def get_rec_initial_extra_outputs(cls, batch_dim, rec_layer, sources, start=0.0, **kwargs):
        return {"sum": tf.fill([batch_dim, sources[0].output.dim], start), "number": tf.constant(0)}

register_layer_class(Sum)
network = {}
"""


def test_state_of_own_class():
    layer = {"class": "my_sum", "from": "data:source", "by": 2.0, "start": 1.0}
    out = net_of(SUM, network=in_loop(output=layer)).run(values={"data": DATA})
    assert_frames_close(out, 1 + 2 * numpy.cumsum(DATA, axis=1))


def test_last_state_of_own_class_outside_of_the_loop():
    text = SUM.replace(
        "register_layer_class(Sum)",
        """
    def post_process_final_rec_vars_outputs(self, rec_vars_outputs, seq_len):
        mean = rec_vars_outputs["sum"] / tf.cast(seq_len[:, None], "float32")
        return {**rec_vars_outputs, "sum": mean}

register_layer_class(Sum)
""",
    )
    assert text != SUM
    loop = in_loop(output={"class": "my_sum", "from": "data:source"})["output"]
    last = {"class": "get_last_hidden_state", "from": "loop", "key": "sum", "n_out": 6}
    sums, means = (
        net_of(one, network={"loop": loop, "output": last}).run(values={"data": DATA}) for one in (SUM, text)
    )
    expected = numpy.stack([one[:length].sum(axis=0) for one, length in zip(DATA, LENGTHS, strict=True)])
    numpy.testing.assert_allclose(sums, expected, rtol=1e-4)
    numpy.testing.assert_allclose(means, expected / numpy.array(LENGTHS)[:, None], rtol=1e-4)


@pytest.mark.parametrize("n_out", [6, None])
def test_state_of_own_class_in_the_frame_before(n_out):
    state = {"class": "get_last_hidden_state", "key": "sum"}
    if n_out is not None:
        state["n_out"] = n_out
    layers = {
        "sum": {"class": "my_sum", "from": "data:source", "start": 1.0},
        "output": {**state, "from": "prev:sum"},
    }
    out = net_of(SUM, network=in_loop(**layers)).run(values={"data": DATA})
    assert_frames_close(out, 1 + numpy.cumsum(DATA, axis=1) - DATA)


@pytest.mark.parametrize("n_out", [6, None])
def test_own_class_that_depends_on_its_own_state_by_another_layer(n_out):
    state = {"class": "get_last_hidden_state", "key": "sum", "from": "prev:output"}
    if n_out is not None:
        state["n_out"] = n_out
    layers = {
        "before": state,
        "both": {"class": "combine", "kind": "add", "from": ["data:source", "before"]},
        "output": {"class": "my_sum", "from": "both"},
    }
    out = net_of(SUM, network=in_loop(**layers)).run(values={"data": DATA})
    expected, total = [], 0.0
    for frame in DATA.swapaxes(0, 1):
        total = total + (frame + total)
        expected.append(total)
    assert_frames_close(out, numpy.stack(expected, axis=1))


def test_own_class_whose_state_nobody_can_know():
    layers = {
        "before": {"class": "get_last_hidden_state", "key": "sum", "from": "prev:output"},
        "output": {"class": "my_sum", "from": "before", "n_out": 6},
    }
    with pytest.raises(ConfigError, match="layer 'output/output': what it needs of its own past is not known"):
        net_of(SUM, network=in_loop(**layers))


def test_layer_with_state_stays_in_the_loop():
    layers = {"sum": {"class": "my_sum", "from": "data:source"}, "output": {"class": "copy", "from": "sum"}}
    net = net_of(SUM, network=in_loop(**layers))
    plan = net.net.get_layer("output").compiled.plan
    assert (plan.place_of("sum"), plan.place_of("output")) == ("inside", "after")


@pytest.mark.parametrize("text", [SUM, SCALED_LINEAR])
def test_check_needs_no_graph(text):
    config = load(HEAD + text)
    name = "my_sum" if text is SUM else "scaled_linear"
    config.typed_dict["network"] = in_loop(output={"class": name, "from": "data:source", "n_out": 6})
    with tf.Graph().as_default() as graph, global_config_ctx(config):
        result = check_config(config)
        assert result.errors == []
        assert not graph.get_operations()


def test_missing_new_state_is_an_error():
    text = SUM.replace('self.rec_vars_outputs["number"]', "number")
    with pytest.raises(ConfigError) as info:
        net_of(text, network=in_loop(output={"class": "my_sum", "from": "data:source"}))
    assert str(info.value) == (
        "layer 'output/output' (class 'my_sum'): it has the state 'number', but `self.rec_vars_outputs` does not say "
        "what it is after this frame.\n  There is: sum."
    )


def decoder(**layers):
    unit = {
        "embedding": {"class": "linear", "activation": None, "from": "prev:output", "n_out": 4},
        "prob": {"class": "softmax", "from": ["sum", "data:source"], "n_out": 5},
        "output": {"class": "choice", "from": "prob", "beam_size": 3, "initial_output": 0, "target": "classes"},
        **layers,
    }
    return {"output": {"class": "rec", "from": "data", "unit": unit}}


def test_state_follows_the_hypotheses_of_a_search():
    own = {"class": "my_sum", "from": "embedding"}
    ours = {"class": "eval", "from": ["embedding", "prev:sum"], "eval": "source(0) + source(1)", "n_out": 4}
    nets = [net_of(SUM, network=decoder(sum=layer), search_flag=True) for layer in (own, ours)]
    results = [net.run(values={"data": 3 * DATA}) for net in nets]
    assert results[0].shape == (9, 7)
    numpy.testing.assert_array_equal(*results)


def test_state_before_follows_the_hypotheses_of_a_search():
    own = {"class": "my_sum", "from": "embedding"}
    ours = {"class": "eval", "from": ["embedding", "prev:sum"], "eval": "source(0) + source(1)", "n_out": 4}
    state = {"class": "get_last_hidden_state", "from": "prev:sum", "key": "sum", "n_out": 4}
    prob = {"class": "softmax", "from": ["before", "data:source"], "n_out": 5}
    before = {"class": "copy", "from": "prev:sum"}
    dicts = [decoder(sum=own, before=state, prob=prob), decoder(sum=ours, before=before, prob=prob)]
    results = [net_of(SUM, network=one, search_flag=True).run(values={"data": 3 * DATA}) for one in dicts]
    numpy.testing.assert_array_equal(*results)


def test_derived_class_sees_batch_and_beam_as_one_axis():
    text = """
seen = []
class Twice(LinearLayer):
    layer_class = "twice"
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        x, source = self.output.placeholder, self.sources[0].output.placeholder
        seen.append((x.shape.rank, source.shape.rank, self.input_data.placeholder.shape.rank))
        assert x.shape.rank == 2
        self.output.placeholder = tf.concat([x[:, :2], x[:, 2:] + tf.reshape(source, [-1, 4])[:, :2]], axis=1)

register_layer_class(Twice)
network = {}
"""
    ours = {"class": "eval", "from": ["linear", "embedding"], "n_out": 4, "out_type": {"dtype": "float32"}}
    ours["eval"] = "tf.concat([source(0)[:, :2], source(0)[:, 2:] + source(1)[:, :2]], axis=1)"
    linear = {"class": "linear", "from": "embedding", "n_out": 4, "activation": "tanh"}
    net = net_of(text, network=decoder(sum={**linear, "class": "twice"}), search_flag=True)
    results = [net.run(values={"data": 3 * DATA})]
    assert net.config.typed_dict["seen"] == [(2, 2, 2)]
    net = net_of(text, network=decoder(sum=ours, linear={**linear, "name_scope": "sum"}), search_flag=True)
    results.append(net.run(values={"data": 3 * DATA}))
    assert results[0].shape == (9, 7)
    numpy.testing.assert_array_equal(*results)


def test_past_output_is_there_if_somebody_wants_it():
    text = SUM.replace('before["sum"] +', "self._rec_previous_layer.output.placeholder +")
    text = text.replace("get_rec_initial_output", "unused")
    unit = {
        "sum": {"class": "my_sum", "from": "data:source", "initial_output": 1.0},
        "output": {"class": "combine", "kind": "add", "from": ["sum", "prev:sum"]},
    }
    out = net_of(text, network=in_loop(**unit)).run(values={"data": DATA})
    total = 1 + numpy.cumsum(DATA, axis=1)
    assert_frames_close(out, 2 * total - DATA)


def test_growing_state_with_shape_invariants():
    text = """
class History(_ConcatInputLayer):
    layer_class = "history"

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        before = self._rec_previous_layer.rec_vars_outputs["history"]
        after = tf.concat([before, tf.expand_dims(self.input_data.placeholder, axis=1)], axis=1)
        self.rec_vars_outputs["history"] = after
        self.output.placeholder = tf.reduce_max(after, axis=1)

    @classmethod
    def get_out_data_from_opts(cls, name, sources, **kwargs):
        return sources[0].output.copy_template(name="%s_output" % name)

    @classmethod
    def get_rec_initial_extra_outputs(cls, batch_dim, rec_layer, sources, **kwargs):
        return {"history": tf.zeros([batch_dim, 0, sources[0].output.dim])}

    @classmethod
    def get_rec_initial_extra_outputs_shape_invariants(cls, rec_layer, sources, **kwargs):
        return {"history": tf.TensorShape([None, None, sources[0].output.dim])}

register_layer_class(History)
network = {}
"""
    out = net_of(text, network=in_loop(output={"class": "history", "from": "data:source"})).run(values={"data": DATA})
    assert_frames_close(out, numpy.maximum.accumulate(DATA, axis=1))
    net_of(text, network=decoder(sum={"class": "history", "from": "embedding"}), search_flag=True).run()


# Loops and search otherwise.

ADD = """
class Add(_ConcatInputLayer):
    layer_class = "my_add"

    def __init__(self, other, **kwargs):
        super().__init__(**kwargs)
        self.other = other
        assert self.input_data.placeholder.shape.ndims == 2, self.input_data
        self.output.placeholder = self.input_data.placeholder + other.output.placeholder

    @classmethod
    def transform_config_dict(cls, d, network, get_layer):
        super().transform_config_dict(d, network=network, get_layer=get_layer)
        d["other"] = get_layer(d["other"])

    @classmethod
    def get_out_data_from_opts(cls, name, sources, **kwargs):
        return sources[0].output.copy_template(name="%s_output" % name)

    def get_dep_layers(self):
        return super().get_dep_layers() + [self.other]

    @classmethod
    def get_rec_initial_output(cls, batch_dim, output, **kwargs):
        return tf.ones([batch_dim, output.dim])

register_layer_class(Add)
network = {}
"""


def test_own_past_without_n_out_and_initial_output_of_own_class():
    out = net_of(ADD, network=in_loop(output={"class": "my_add", "from": "data:source", "other": "prev:output"})).run(
        values={"data": DATA}
    )
    assert_frames_close(out, 1 + numpy.cumsum(DATA, axis=1))


def test_initial_output_of_own_class_by_ours():
    text = ADD.replace("(cls, batch_dim, output, **kwargs)", "(cls, initial_output=None, **kwargs)")
    text = text.replace(
        "tf.ones([batch_dim, output.dim])", "super().get_rec_initial_output(initial_output=INITIAL, **kwargs)"
    )
    layer = {"class": "my_add", "from": "data:source", "other": "prev:output"}
    out = net_of(text.replace("INITIAL", "'ones'"), network=in_loop(output=layer)).run(values={"data": DATA})
    assert_frames_close(out, 1 + numpy.cumsum(DATA, axis=1))
    with pytest.raises(ConfigError, match="get_rec_initial_output: 'var' is no number"):
        net_of(text.replace("INITIAL", "'var'"), network=in_loop(output=layer))


def test_batch_and_beam_are_one_axis_for_own_classes():
    own = {"class": "my_add", "from": "embedding", "other": "prev:sum"}
    ours = {"class": "combine", "kind": "add", "from": ["embedding", "prev:sum"], "initial_output": 1.0, "n_out": 4}
    nets = [net_of(ADD, network=decoder(sum=layer), search_flag=True) for layer in (own, ours)]
    numpy.testing.assert_array_equal(*[net.run(values={"data": 3 * DATA}) for net in nets])


def test_common_options_of_own_class_in_a_loop():
    unit = {
        "sum": {"class": "my_add", "from": "prob", "other": "prev:sum", "loss": "mse", "is_output_layer": True},
        "prob": {"class": "softmax", "from": ["data:source", "prev:sum"], "n_out": 5},
        "output": {"class": "copy", "from": "sum"},
    }
    unit["sum"]["target"] = "classes"
    net = net_of(ADD, network=in_loop(**unit), with_loss=True)
    loss, out, single = net.run([net.loss, "output", "output/sum"], values={"classes": LABELS})
    numpy.testing.assert_array_equal(out, single)
    errors = (out - numpy.eye(5)[LABELS]) ** 2
    assert loss == pytest.approx(sum(e[:n].mean(axis=-1).sum() for e, n in zip(errors, LENGTHS, strict=True)), rel=1e-4)


# Other parts of the protocol.


def test_sub_layers_of_own_class():
    text = """
from returnn.tf.layers.basic import InternalLayer
class Halves(_ConcatInputLayer):
    layer_class = "halves"
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.output.placeholder = self.input_data.placeholder[:, :, :3]
    @classmethod
    def get_out_data_from_opts(cls, name, sources, **kwargs):
        return sources[0].output.copy_template_replace_dim(axis=2, new_dim=3)
    def get_sub_layer(self, layer_name):
        if layer_name != "rest":
            return None
        output = self.output.copy_template(name="rest")
        output.placeholder = self.input_data.placeholder[:, :, 3:]
        return InternalLayer(name=self.name + "/rest", network=self.network, output=output, sources=[self])

register_layer_class(Halves)
network = {
    "halves": {"class": "halves", "from": "data"},
    "output": {"class": "combine", "kind": "add", "from": ["halves", "halves/rest"]},
}
"""
    out = net_of(text).run(values={"data": DATA})
    numpy.testing.assert_allclose(out, DATA[..., :3] + DATA[..., 3:])


def test_sub_layers_of_own_class_in_a_loop():
    text = """
from returnn.tf.layers.basic import InternalLayer
class Twice(_ConcatInputLayer):
    layer_class = "twice"
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.output.placeholder = self.input_data.placeholder
    @classmethod
    def get_out_data_from_opts(cls, name, sources, **kwargs):
        return sources[0].output.copy_template(name=name)
    @classmethod
    def get_sub_layer_out_data_from_opts(cls, layer_name, parent_layer_kwargs):
        output = cls.get_out_data_from_opts(**parent_layer_kwargs)
        return output, parent_layer_kwargs["network"], InternalLayer
    def get_sub_layer(self, layer_name):
        output = self.output.copy_template()
        output.placeholder = self.output.placeholder * 2
        return InternalLayer(name=self.name + "/" + layer_name, network=self.network, output=output)

register_layer_class(Twice)
network = {}
"""
    unit = {
        "twice": {"class": "twice", "from": "data:source"},
        "output": {"class": "combine", "kind": "add", "from": ["twice/more", "prev:output"], "n_out": 6},
    }
    out = net_of(text, network=in_loop(**unit)).run(values={"data": DATA})
    assert_frames_close(out, 2 * numpy.cumsum(DATA, axis=1))


def test_own_loss():
    text = """
class Squares(Loss):
    class_name = "squares"
    recurrent = False

    def __init__(self, factor=1.0, **kwargs):
        super(Squares, self).__init__(**kwargs)
        self.factor = factor

    def get_value(self):
        target = tf.one_hot(self.target_flat, self.output_flat.shape[-1])
        return self.factor * self.reduce_func(tf.reduce_sum((self.output_flat - target) ** 2, axis=-1))

    def get_error(self):
        best = tf.argmax(self.output_flat, -1, output_type=tf.int32)
        return self.reduce_func(tf.to_float(tf.not_equal(best, self.target_flat)))

register_loss_class(Squares)
network = {"output": {
    "class": "linear", "activation": "softmax", "from": "data", "loss": "squares", "loss_opts": {"factor": 2.0},
    "loss_scale": 0.5, "target": "classes"}}
network_with_class = {"output": {**network["output"], "loss": Squares}}
"""
    net = net_of(text, with_loss=True)
    loss, out = net.run([net.loss, "output"], values={"classes": LABELS})
    errors = ((out - numpy.eye(5)[LABELS]) ** 2).sum(axis=-1)
    expected = sum(row[:length].sum() for row, length in zip(errors, LENGTHS, strict=True))
    assert loss == pytest.approx(expected, rel=1e-4)
    by_class = net_of(text, network=net.config.typed_dict["network_with_class"], with_loss=True)
    assert by_class.run(by_class.loss, values={"classes": LABELS}) == pytest.approx(expected, rel=1e-4)


def test_own_parameters_and_their_options():
    text = """
class Scale(_ConcatInputLayer):
    layer_class = ("scale", "my_scale")
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.var_creation_scope():
            self.scale = self.add_param(tf.compat.v1.get_variable("scale", (6,), initializer=tf.ones_initializer()))
        self.output.placeholder = self.input_data.placeholder * self.scale
    @classmethod
    def get_out_data_from_opts(cls, name, sources, **kwargs):
        return sources[0].output.copy_template(name=name)

register_layer_class(Scale)
network = {
    "a": {"class": "scale", "from": "data", "L2": 0.5, "is_output_layer": True},
    "b": {"class": "my_scale", "from": "a", "trainable": False},
    "c": {"class": Scale, "from": "b", "reuse_params": "a"},
    "output": {"class": "copy", "from": "c"},
}
"""
    net = net_of(text, with_loss=True)
    assert sorted(p.op.name for p in net.net.get_params_list()) == ["a/scale", "b/scale"]
    with net.graph.as_default():
        assert [p.op.name for p in net.net.get_trainable_params()] == ["a/scale"]
    assert net.run(net.loss) == pytest.approx(0.5 * 6)
    numpy.testing.assert_allclose(net.run(values={"data": DATA}), DATA)


# Functions of users.

OUT_TYPE = """
from returnn.tf.util.data import Data

def rna_loss(source, scale):
    data = source(0, as_data=True).copy_as_batch_major()
    assert data.placeholder.shape.ndims == 2 + data.have_time_axis() - data.sparse
    return tf.to_float(tf.shape(data.placeholder)[0]) + tf.zeros(tf.shape(data.placeholder)[:1]) * scale

def rna_loss_out(sources, network, name, scale, **kwargs):
    assert len(sources) == 1
    return Data(name="rna_loss", shape=(), dtype="float32", batch=sources[0].output.batch)

network = {"output": {
    "class": "eval", "from": "data", "eval": "self.network.get_config().typed_value('rna_loss')(source, scale=scale)",
    "out_type": rna_loss_out, "loss": "as_is", "eval_locals": {"scale": 2.0},
}}
"""


def test_out_type_can_be_a_function():
    net = net_of(OUT_TYPE, with_loss=True)
    loss, out = net.run([net.loss, "output"])
    numpy.testing.assert_allclose(out, [3, 3, 3])
    assert loss == pytest.approx(9)
    with pytest.raises(ConfigError, match=r"^layer 'output' .*'out_type': the function has to return a Data or Tensor"):
        net_of(OUT_TYPE.replace("return Data", "return dict"))
