"""Layers that contain others, or only look at them: subnetworks, conditions, sources, debugging."""
