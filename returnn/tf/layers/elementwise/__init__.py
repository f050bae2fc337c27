"""Layers that compute each entry on its own."""
