"""Packed tensors: the frames of all sequences of a batch behind each other, without padding."""

from returnn.frontend._packed_backend import is_packed, pack, pack_import, packed_flat_content, packed_regap, unpack

__all__ = ["is_packed", "pack", "pack_import", "packed_flat_content", "packed_regap", "unpack"]
