"""Layers that change the dims of their source, or take and put frames."""
