"""
Layers: the parts that a net dict is made of, a module per theme.

`returnn.tf.layers.base`, `.basic`, `.rec`, `.variable`, `.signal_processing`, `.segmental_model` hand on the documented
names.
"""
