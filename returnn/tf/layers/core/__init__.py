"""What all layers have in common: `LayerBase` and its parts, and the base classes of layers and losses."""
