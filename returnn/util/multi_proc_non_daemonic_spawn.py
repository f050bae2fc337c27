"""Documented path: hands on processes that can have processes."""

from returnn.compat.processes.non_daemonic_spawn import NonDaemonicSpawnContext, NonDaemonicSpawnProcess

__all__ = ["NonDaemonicSpawnContext", "NonDaemonicSpawnProcess"]
