"""`SharedMem`: memory that several processes see, by the functions of System V that libc has."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
from collections.abc import Callable
from typing import Any, ClassVar

from returnn.util.errors import UserError


class CCallException(UserError):
    """A function of libc has failed."""


class ShmException(CCallException):
    """One on shared memory has failed."""


def _libc_with_types(name: str | None) -> ctypes.CDLL:
    libc = ctypes.CDLL(name, use_errno=True)
    libc.shmget.argtypes = [ctypes.c_int, ctypes.c_size_t, ctypes.c_int]
    libc.shmat.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
    libc.shmat.restype = ctypes.c_void_p
    libc.shmdt.argtypes = [ctypes.c_void_p]
    return libc


class SharedMem:
    """
    A piece of memory. Whoever has made it removes it; whoever gets it by pickle is attached to it, if on this machine.

    `ptr` is its address in this process.
    """

    CCallException = CCallException
    ShmException = ShmException
    IPC_PRIVATE: ClassVar[int] = 0
    IPC_RMID: ClassVar[int] = 0
    ctypes = ctypes
    libc_so: ClassVar[str | None] = ctypes.util.find_library("c")
    libc: ClassVar[ctypes.CDLL] = _libc_with_types(libc_so)
    shm_key_t: ClassVar[Any] = ctypes.c_int

    def __init__(self, size: int, shmid: int | None = None) -> None:
        """
        :param size: in bytes
        :param shmid: of a piece that is there already. None: make one
        :raises ShmException: if that is not possible
        """
        self.size = size
        self.is_creator = shmid is None
        self.ptr: int | None = None
        self.shmid = self.libc.shmget(self.IPC_PRIVATE, size, 0o600) if shmid is None else shmid
        self.check_ccall_error(self.shmid >= 0, self.libc.shmget)
        ptr = self.libc.shmat(self.shmid, None, 0)
        if ptr in (None, ctypes.c_void_p(-1).value) and self.is_creator:
            self._remove_id()
        self.check_ccall_error(ptr not in (None, ctypes.c_void_p(-1).value), self.libc.shmat)
        self.ptr = ptr

    def remove(self) -> None:
        """Detaches it; if it was made here, it is gone when the last one has detached it."""
        if self.ptr is not None:
            self.libc.shmdt(self.ptr)
            self.ptr = None
            if self.is_creator:
                self._remove_id()

    def _remove_id(self) -> None:
        self.libc.shmctl(self.shmid, self.IPC_RMID, None)

    def __getstate__(self) -> dict[str, Any]:
        return {"size": self.size, "shmid": self.shmid}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} shmid={self.shmid} size={self.size}{' creator' if self.is_creator else ''}>"

    @classmethod
    def check_ccall_error(cls, check: bool, f: Callable[..., Any]) -> None:
        """
        :param check: whether the call has worked
        :param f: function of libc
        :raises ShmException: if it has not; or CCallException, if it is not about shared memory
        """
        if not check:
            name = getattr(f, "__name__", str(f))
            error = cls.ShmException if name.startswith("shm") else cls.CCallException
            raise error(f"{name} has failed: {os.strerror(ctypes.get_errno())}")

    @classmethod
    def is_shmget_functioning(cls) -> bool:
        """:return: whether there is such memory here"""
        try:
            cls(1).remove()
        except cls.ShmException:
            return False
        return True
