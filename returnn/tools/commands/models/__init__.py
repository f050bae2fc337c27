"""Tools for models: checkpoints, outputs, graphs."""
