"""Imports modules from git repositories at a fixed version, see `import_`."""

from returnn.import_.import_ import import_

__all__ = ["import_"]
