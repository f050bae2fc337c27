"""Conditions, loops and arrays of tensors: nested structures of tensors that fit together."""
