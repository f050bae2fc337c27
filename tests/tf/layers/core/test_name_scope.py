"""Scopes of the variables of layers."""

import pytest

from returnn.tf.layers.core.name_scope import scope_name, scope_of_params


@pytest.mark.parametrize(
    ("name", "scope"), [("enc", "enc"), ("enc/fw", "enc/fw"), ("a:b", "a__b"), ("a b", "a_b"), ("_x", ".95.x")]
)
def test_scope_of_a_layer_name(name, scope):
    assert scope_name(name) == scope


@pytest.mark.parametrize(
    ("name_scope", "scope"),
    [(None, "net/x/"), ("y", "net/y/"), ("/y", "y/"), ("", "net/"), ("/", ""), ("y/z", "net/y/z/")],
)
def test_scope_of_the_parameters(name_scope, scope):
    assert scope_of_params("x", name_scope=name_scope, outer="net/") == scope
