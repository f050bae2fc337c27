"""Single numbers and texts in binary files, little endian, named as in RASR."""

from __future__ import annotations

import struct
from typing import Any, BinaryIO

from returnn.util.errors import UserError


class BinaryNumbers:
    """Reads and writes at the place where a file is. A class that derives from it has the file `f`."""

    f: BinaryIO
    filename: str

    def read_bytes(self, length: int) -> bytes:
        """
        :param length: in bytes
        :raises UserError: if the file ends before
        """
        value = self.f.read(length)
        if len(value) < length:
            raise UserError(f"file {self.filename!r}: ends at {self.f.tell()}, {length - len(value)} bytes too early.")
        return value

    def read_str(self, length: int, encoding: str = "ascii") -> str:
        """:param length: in bytes"""
        return self.read_bytes(length).decode(encoding)

    def read_v(self, typ: str, size: int) -> tuple[Any, ...]:
        """
        :param typ: of the numbers, as the module `struct` names it: "f", "d", "I", "B", ...
        :param size: how many
        """
        layout = f"<{size}{typ}"
        return struct.unpack(layout, self.read_bytes(struct.calcsize(layout)))

    def read_char(self) -> int:
        """:return: a signed byte"""
        return int(self.read_v("b", 1)[0])

    def read_U8(self) -> int:
        """:return: an unsigned byte"""
        return int(self.read_v("B", 1)[0])

    def read_S16(self) -> int:
        """:return: a signed integer of 16 bits"""
        return int(self.read_v("h", 1)[0])

    def read_u32(self) -> int:
        """:return: an unsigned integer of 32 bits"""
        return int(self.read_v("I", 1)[0])

    read_U32 = read_u32

    def read_u64(self) -> int:
        """:return: an unsigned integer of 64 bits"""
        return int(self.read_v("Q", 1)[0])

    def read_f32(self) -> float:
        """:return: a float of 32 bits"""
        return float(self.read_v("f", 1)[0])

    def read_f64(self) -> float:
        """:return: a float of 64 bits"""
        return float(self.read_v("d", 1)[0])

    def write_str(self, s: str, enc: str = "ascii") -> int:
        """:return: number of bytes, like the other ones. The length is not written"""
        return self.f.write(s.encode(enc))

    def write_char(self, i: int) -> int:
        """:param i: a signed byte"""
        return self.f.write(struct.pack("<b", i))

    def write_u32(self, i: int) -> int:
        """:param i: an unsigned integer of 32 bits"""
        return self.f.write(struct.pack("<I", i))

    write_U32 = write_u32

    def write_u64(self, i: int) -> int:
        """:param i: an unsigned integer of 64 bits"""
        return self.f.write(struct.pack("<Q", i))

    def write_f32(self, i: float) -> int:
        """:param i: is written with 32 bits"""
        return self.f.write(struct.pack("<f", i))

    def write_f64(self, i: float) -> int:
        """:param i: is written with 64 bits"""
        return self.f.write(struct.pack("<d", i))
