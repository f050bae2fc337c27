"""Recurrent layers. Documented names are handed on at the end of this file."""
