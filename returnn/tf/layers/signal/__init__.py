"""Signals: spectra, complex numbers, channels, enhancement."""
