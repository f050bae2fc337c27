"""Documented path: hands on how modules in C are compiled."""

from returnn.compat.processes.extension_modules import PyExtModCompiler

__all__ = ["PyExtModCompiler"]
