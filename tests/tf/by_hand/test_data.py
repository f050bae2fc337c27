"""Tensors by hand: lengths that several of them have, hypotheses and frames in the batch, dropout of sources."""

from __future__ import annotations

import numpy
import pytest
import tensorflow as tf

from returnn.config import Config
from returnn.tf.layers.basic import (
    CombineLayer,
    GatherLayer,
    InternalLayer,
    LayerBase,
    LinearLayer,
    SplitDimsLayer,
    concat_sources,
    concat_sources_with_opt_dropout,
)
from returnn.tf.layers.rec import GenericAttentionLayer
from returnn.tf.network import ExternData, TFNetwork
from returnn.tf.util.data import BatchInfo, Data, Dim, FeatureDim, SearchBeam, SpatialDim
from returnn.util.errors import ConfigError
from tests.tf.by_hand.scripts import make_feed_dict, make_scope


@pytest.fixture
def session():
    with make_scope() as session:
        yield session


def filled(name, features, lengths, **options):
    values = tf.ones((2, 5, features))
    return Data(name, shape=(None, features), placeholder=values, size_placeholder={0: lengths}, **options)


def make_layers(*tensors, train_flag=False):
    network = TFNetwork(config=Config(), extern_data=ExternData(), train_flag=train_flag)
    return [InternalLayer(name=x.name, network=network, output=x) for x in tensors]


def test_the_same_lengths_are_those_of_one_dim(session):
    lengths = tf.constant([5, 3])
    a, b, c = filled("a", 3, lengths), filled("b", 4, lengths), filled("c", 2, tf.constant([5, 3]))
    assert a.get_time_dim_tag() == b.get_time_dim_tag() != c.get_time_dim_tag()
    assert Dim.get_tag_from_size_tensor(lengths) == a.get_time_dim_tag()
    c.size_placeholder = a.size_placeholder.copy()  # the last ones count
    assert c.get_time_dim_tag() == a.get_time_dim_tag()
    joined = concat_sources(make_layers(a, b, c))
    assert session.run(joined.placeholder).shape == (2, 5, 9)
    fed = Data("fed", shape=(None, 3), auto_create_placeholders=True)
    like_fed = Data("like_fed", shape=(None,), dim=4, sparse=True, placeholder=tf.zeros((2, 5), tf.int32))
    like_fed.size_placeholder = {0: fed.size_placeholder[0]}
    assert like_fed.get_time_dim_tag() == fed.get_time_dim_tag()


def test_lengths_of_all_axes_are_fetched_at_once(session):
    data = Data("data", shape=(None, 3, None), auto_create_placeholders=True)
    lengths = {data.size_placeholder[0]: [5, 3], data.size_placeholder[2]: [2, 4]}
    for fetches in (data.size_placeholder, data.size_placeholder.as_dict(), data.size_placeholder.copy()):
        values = session.run({"sizes": fetches}, lengths)["sizes"]
        assert {axis: size.tolist() for axis, size in values.items()} == {0: [5, 3], 2: [2, 4]}
    values = tf.nest.map_structure(tf.reduce_max, data.size_placeholder)
    assert {axis: session.run(size, lengths) for axis, size in values.items()} == {0: 5, 2: 4}


def test_frames_as_part_of_the_batch(session):
    data = Data("data", shape=(None, 3), auto_create_placeholders=True)
    feed = make_feed_dict([data], n_batch=2)
    values = feed[data.placeholder]
    for axes, order, key in [([0, 1], (0, 1, 2), ["batch", "time"]), ([1, 0], (1, 0, 2), ["time", "batch"])]:
        merged = data.copy_merge_into_batch(axes)
        parts = ["batch" if part.short_repr() == "B" else "time" for part in merged.batch.virtual_dims]
        assert parts == key
        expected = values.transpose(order).reshape((-1, 3))
        numpy.testing.assert_array_equal(session.run(merged.placeholder, feed), expected)
    template = Data("data", shape=(None, 3)).copy_merge_into_batch([0, 1])
    assert template.batch_shape == (None, 3)


def test_lengths_of_each_hypothesis(session):
    data = Data("data", shape=(None, 5), auto_create_placeholders=True)
    beam = data.copy_extend_with_beam(SearchBeam(beam_size=2))
    fetches = [beam.get_sequence_lengths(), beam.size_placeholder[0], beam.get_sequence_mask(), beam.placeholder]
    feed = make_feed_dict([data], n_batch=2)
    lengths, of_axis, mask, values = session.run(fetches, feed)
    assert lengths.tolist() == of_axis.tolist() == [7, 7, 5, 5]
    assert mask.shape == (4, 7)
    assert mask.sum(axis=1).tolist() == [7, 7, 5, 5]
    numpy.testing.assert_array_equal(values[0], values[1])


def test_sizes_of_batches(session):
    batch = BatchInfo.make_global_batch_info(tf.constant(4))
    time = SpatialDim("time")
    time.dyn_size = tf.constant([1, 2, 3, 4])
    packed = batch.copy_extend_with_packed_dim_tag(time, batch_major=True)
    padded = batch.copy_extend_with_padded_dim_tag(time, batch_major=True)
    fixed = batch.copy_extend_with_padded_or_fixed_dim_tag(FeatureDim("feature", 5), batch_major=True)
    assert session.run([packed.dim, padded.dim, fixed.dim]) == [10, 16, 20]
    assert Data("data", shape=(None, 5)).get_static_batch_dim() is None


@pytest.mark.parametrize("train_flag", [True, False])
def test_dropout_is_that_of_the_network_of_the_sources(session, train_flag):
    (source,) = make_layers(filled("a", 100, tf.constant([5, 3])), train_flag=train_flag)
    values = session.run(concat_sources_with_opt_dropout([source], dropout=0.5).placeholder)
    assert set(numpy.unique(values)) == ({0.0, 2.0} if train_flag else {1.0})


def test_templates_need_no_network():
    with make_scope():
        source, position = make_layers(filled("a", 20, tf.constant([5, 3])), Data("i", shape=(), dtype="int32"))
        assert SplitDimsLayer.get_out_data_from_opts(name="x", sources=[source], axis="F", dims=(4, -1)).dim == 5
        assert CombineLayer.get_out_data_from_opts(name="x", sources=[source, source], kind="add").dim == 20
        frame = GatherLayer.get_out_data_from_opts(name="x", sources=[source], position=position, axis="T")
        assert frame.batch_shape == (None, 20)
        time = source.output.get_time_dim_tag()
        (weights,) = make_layers(Data("weights", dims=[source.output.dims[0], time], dtype="float32"))
        assert GenericAttentionLayer.get_out_data_from_opts(base=source, weights=weights).dim == 20
        with pytest.raises(ConfigError, match="a network or a source is required"):
            LinearLayer.get_out_data_from_opts(name="x", n_out=3)


class NormalizedLayer(LayerBase):
    """Normalizes on raw tensors."""

    layer_class = "by_hand_normalized"

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.output.placeholder = self.batch_norm(self.sources[0].output, masked_time=False)
        self.output.size_placeholder = self.sources[0].output.size_placeholder.copy()


def test_batch_norm_in_a_class_on_raw_tensors(session):
    values = numpy.random.RandomState(1).normal(size=(2, 5, 3)).astype("float32")
    data = Data("a", shape=(None, 3), placeholder=tf.constant(values), size_placeholder={0: tf.constant([5, 5])})
    (source,) = make_layers(data, train_flag=True)
    options = {"name": "norm", "network": source.network, "sources": [source]}
    layer = NormalizedLayer(output=NormalizedLayer.get_out_data_from_opts(**options), **options)
    session.run(tf.compat.v1.global_variables_initializer())
    out = session.run(layer.output.placeholder)
    numpy.testing.assert_allclose(out.mean(axis=(0, 1)), 0, atol=1e-5)
    numpy.testing.assert_allclose(out.std(axis=(0, 1)), 1, atol=1e-2)
