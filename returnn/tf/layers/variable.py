"""Layers about variables, under their documented path. This module only hands them on."""

from returnn.tf.layers.values.variables import VariableAssignLayer, VariableLayer, VariableReadLayer

__all__ = ["VariableAssignLayer", "VariableLayer", "VariableReadLayer"]
