"""Documented helpers which only configs and tools of users call."""
