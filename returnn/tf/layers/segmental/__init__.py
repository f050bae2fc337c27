"""Alignments of frames to labels, and models over segments."""
