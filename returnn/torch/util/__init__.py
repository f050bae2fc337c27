"""Devices, memory, and where the time goes."""
