"""Small helpers, one theme per module."""
