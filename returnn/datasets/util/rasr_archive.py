"""
Cache archives of RASR (Rybach et al. 2009), also called Sprint caches: named entries of features or alignments.

All numbers are little endian. The file begins with `SP_ARC1` and a zero byte, and one byte that says whether a table
of all entries stands at its end (the last 8 bytes are the position of that table). Each entry is

    u32 start tag, u32 length of the name, name, u32 size, u32 compressed size (0: not compressed), u32 checksum,
    content, u32 end tag

so that the entries of an archive that was not finished can be found as well.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, ClassVar, TypeAlias

import numpy
import numpy.typing

from returnn.datasets.util.allophone_labeling import read_allophones
from returnn.util.errors import UserError, nearest_hint
from returnn.util.files.binary_numbers import BinaryNumbers
from returnn.util.files.text_file import iter_lines

Floats: TypeAlias = numpy.typing.NDArray[numpy.float32]
Times: TypeAlias = numpy.typing.NDArray[numpy.float64]
Alignment: TypeAlias = list[tuple[int, int, int, float]]  # frame, allophone, state, weight

_FEATURE_TYPE = b"vector-f32"
_ALIGNMENT_TYPE = b"flow-alignment"
_MAX_STATES = 6
_LIST_FLAG = 1 << 31


@dataclass
class FileInfo:
    """An entry of an archive."""

    name: str
    pos: int  # of its size, in bytes
    size: int  # in bytes
    compressed: int  # size in the archive in bytes, 0: it is not compressed
    index: int


class FileArchive(BinaryNumbers):
    """One archive. To write one, add all entries, and call `finalize`."""

    SprintCacheHeader: ClassVar[str] = "SP_ARC1\0"
    start_recovery_tag: ClassVar[int] = 0xAA55AA55
    end_recovery_tag: ClassVar[int] = 0x55AA55AA

    def __init__(self, filename: str, must_exists: bool = True, encoding: str = "ascii"):
        """
        :param filename: is made if it is not there
        :param must_exists: whether that is an error
        :param encoding: of the names
        :raises UserError: if it is not there, or is no such archive
        """
        self.filename = filename
        self.encoding = encoding
        self.ft: dict[str, FileInfo] = {}
        self.allophones: list[str] = []
        if os.path.exists(filename):
            self.f: BinaryIO = open(filename, "rb")  # noqa: SIM115 - as long as this object
            self._read_index()
        elif must_exists:
            raise UserError(f"There is no archive {filename!r}.")
        else:
            self.f = open(filename, "wb+")  # noqa: SIM115 - as long as this object
            self.f.write(self._header() + b"\x00")

    @property
    def open_files(self) -> list[str]:
        """Names of the archives that are read from."""
        return [self.filename]

    def __del__(self) -> None:
        if hasattr(self, "f"):
            self.f.close()

    def file_list(self) -> list[str]:
        """:return: names of all entries"""
        return list(self.ft)

    def has_entry(self, filename: str) -> bool:
        """:return: whether there is such an entry"""
        return filename in self.ft

    def set_allophones(self, f: str) -> None:
        """
        :param f: file with an allophone per line
        """
        self.allophones = read_allophones(f)

    def get_allophones_list(self) -> list[str]:
        """:return: by index"""
        return self.allophones

    def get_state(self, mix: int) -> tuple[int, int]:
        """:return: allophone and state of an index in an alignment. Needs `set_allophones`"""
        state, allophone = divmod(mix, len(self.allophones))
        if state >= _MAX_STATES:
            raise UserError(
                f"archive {self.filename!r}: the state {mix} does not fit {len(self.allophones)} allophones."
            )
        return allophone, state

    def read(self, filename: str, typ: str) -> tuple[Times, Floats] | Alignment:
        """
        :param filename: name of the entry
        :param typ: "feat": (begin and end of each frame in seconds (frames, 2), features (frames, dim)).
            "align": list of (frame, allophone, state, weight). "align_raw": the same with the index as allophone, and
            state 0
        :raises UserError: if there is no such entry, or it has another type
        """
        content = self.read_content(filename)
        (type_len,) = struct.unpack_from("<I", content)
        found = content[4 : 4 + type_len]
        expected = _FEATURE_TYPE if typ == "feat" else _ALIGNMENT_TYPE
        if found != expected:
            raise UserError(f"archive {self.filename!r}: {filename!r} is {found[:30]!r}, expected {expected!r}.")
        try:
            if typ == "feat":
                return _parse_features(content[4 + type_len :])
            alignment = _parse_alignment(content[4 + type_len :])
        except (struct.error, ValueError) as exc:
            raise UserError(f"archive {self.filename!r}: {filename!r} is broken: {exc}.") from exc
        if typ == "align":
            return [(t, *self.get_state(mix), weight) for t, mix, _, weight in alignment]
        return alignment

    def read_content(self, filename: str) -> bytes:
        """
        :return: bytes of an entry, decompressed
        :raises UserError: if there is no such entry, or it is broken
        """
        if filename not in self.ft:
            hint = nearest_hint(filename, self.file_list()[:1000])
            raise UserError(f"archive {self.filename!r}: there is no {filename!r}.\n  {hint[:300]}")
        info = self.ft[filename]
        head = os.pread(self.f.fileno(), 12, info.pos)
        size, compressed, _ = struct.unpack("<III", head)
        content = os.pread(self.f.fileno(), compressed or size, info.pos + 12)
        try:
            content = zlib.decompress(content, 15 + 32) if compressed else content
        except zlib.error as exc:
            raise UserError(f"archive {self.filename!r}: {filename!r} is broken: {exc}.") from exc
        if len(content) != size:
            raise UserError(f"archive {self.filename!r}: {filename!r} is not complete.")
        return content

    def add_feature_cache(self, filename: str, features: Floats, times: Times) -> None:
        """
        :param filename: name of the entry
        :param features: (frames, dim)
        :param times: (frames, 2), begin and end of each frame in seconds
        """
        frames = numpy.zeros(len(features), dtype=_frame_dtype(features.shape[1]))
        frames["dim"], frames["features"], frames["times"] = features.shape[1], features, times
        head = struct.pack("<I", len(_FEATURE_TYPE)) + _FEATURE_TYPE + struct.pack("<I", len(features))
        self.add_content(filename, head + frames.tobytes())

    def add_attributes(self, filename: str, dim: int, duration: float) -> None:
        """
        :param filename: name of the entry with the features
        :param dim: of the features
        :param duration: in seconds
        """
        text = (
            '<?xml version="1.0"?>\n<flow-attributes>\n'
            '  <flow-attribute name="datatype" value="vector-f32"/>\n'
            f'  <flow-attribute name="sample-rate" value="1"/>\n'
            f'  <flow-attribute name="feature-dimension" value="{dim}"/>\n'
            f'  <flow-attribute name="total-duration" value="{duration:.5f}"/>\n</flow-attributes>\n'
        )
        self.add_content(f"{filename}.attribs", text.encode())

    def add_content(self, name: str, content: bytes) -> None:
        """Adds an entry."""
        encoded = name.encode(self.encoding)
        self.f.seek(0, os.SEEK_END)
        self.f.write(struct.pack("<II", self.start_recovery_tag, len(encoded)) + encoded)
        self.ft[name] = FileInfo(name, self.f.tell(), len(content), 0, len(self.ft))
        self.f.write(struct.pack("<III", len(content), 0, 0) + content + struct.pack("<I", self.end_recovery_tag))
        self.f.flush()

    def finalize(self) -> None:
        """Writes the table of all entries, and that there is one."""
        self.write_file_info_table()
        self.f.seek(len(self.SprintCacheHeader))
        self.write_char(1)
        self.f.flush()

    def write_file_info_table(self) -> None:
        """Writes the table of all entries to the end of the file."""
        self.f.seek(0, os.SEEK_END)
        position = self.f.tell()
        self.write_u32(len(self.ft))
        for info in self.ft.values():
            self.write_u32(len(info.name.encode(self.encoding)))
            self.write_str(info.name, self.encoding)
            self.write_u64(info.pos)
            self.write_u32(info.size)
            self.write_u32(info.compressed)
        self.write_u32(0)
        self.write_u64(position)

    def scan_archive(self) -> None:
        """Finds the entries without the table."""
        self.ft = {}
        size = os.fstat(self.f.fileno()).st_size
        self.f.seek(len(self.SprintCacheHeader) + 1)
        while (info := self._next_entry(size)) is not None:
            self.ft[info.name] = info

    def read_file_info_table(self) -> None:
        """
        Finds the entries by the table.

        :raises ValueError: if there is no right table
        """
        self.f.seek(-8, os.SEEK_END)
        end = self.f.tell()
        (position,) = struct.unpack("<Q", self.f.read(8))
        if not 0 < position < end:
            raise ValueError(f"the table is at {position}")
        self.f.seek(position)
        table = self.f.read(end - position)
        (count,) = struct.unpack_from("<I", table)
        offset = 4
        for index in range(count):
            (name_len,) = struct.unpack_from("<I", table, offset)
            name = table[offset + 4 : offset + 4 + name_len].decode(self.encoding)
            pos, size, compressed = struct.unpack_from("<QII", table, offset + 4 + name_len)
            self.ft[name] = FileInfo(name, pos, size, compressed, index)
            offset += 4 + name_len + 16

    def _read_index(self) -> None:
        if self.f.read(8) != self._header():
            raise UserError(f"The file {self.filename!r} is no archive of RASR.")
        has_table = self.f.read(1) != b"\x00"
        try:
            if has_table:
                self.read_file_info_table()
                return
        except (struct.error, ValueError, OSError):
            pass  # the entries can be found without it
        self.scan_archive()

    def _next_entry(self, file_size: int) -> FileInfo | None:
        head = self.f.read(8)
        if len(head) < 8:
            return None
        tag, name_len = struct.unpack("<II", head)
        if tag != self.start_recovery_tag or self.f.tell() + name_len + 16 > file_size:
            return None
        name = self.f.read(name_len).decode(self.encoding)
        pos = self.f.tell()
        size, compressed, _ = struct.unpack("<III", self.f.read(12))
        self.f.seek(compressed or size, os.SEEK_CUR)
        if self.f.read(4) != struct.pack("<I", self.end_recovery_tag):
            return None  # the last one was not written to its end
        return FileInfo(name, pos, size, compressed, len(self.ft))

    def _header(self) -> bytes:
        return self.SprintCacheHeader.encode("ascii")


class FileArchiveBundle:
    """Several archives as one. A bundle file lists them, one per line."""

    def __init__(self, filename: str | None = None, encoding: str = "ascii"):
        """:param filename: bundle file"""
        self.archives: dict[str, FileArchive] = {}  # by file name
        self.files: dict[str, FileArchive] = {}  # by entry
        if filename is not None:
            self.add_bundle(filename, encoding=encoding)

    @property
    def open_files(self) -> list[str]:
        """Names of the archives that are read from."""
        return list(self.archives)

    def add_bundle(self, filename: str, encoding: str = "ascii") -> None:
        """Adds all archives of a bundle file."""
        for line in iter_lines(filename):
            if line.strip():
                self.add_archive(line.strip(), encoding=encoding)

    def add_archive(self, filename: str, encoding: str = "ascii") -> None:
        """Adds an archive, if it is not there yet."""
        if filename in self.archives:
            return
        archive = FileArchive(filename, must_exists=True, encoding=encoding)
        self.archives[filename] = archive
        self.files.update(dict.fromkeys(archive.file_list(), archive))

    def add_bundle_or_archive(self, filename: str, encoding: str = "ascii") -> None:
        """Adds what it is, by its name."""
        add = self.add_bundle if filename.endswith(".bundle") else self.add_archive
        add(filename, encoding=encoding)

    def file_list(self) -> list[str]:
        """:return: names of all entries"""
        return list(self.files)

    def has_entry(self, filename: str) -> bool:
        """:return: whether there is such an entry"""
        return filename in self.files

    def read(self, filename: str, typ: str) -> tuple[Times, Floats] | Alignment:
        """See `FileArchive.read`."""
        if filename not in self.files:
            names = ", ".join(list(self.archives)[:3])
            raise UserError(
                f"There is no {filename!r} in the {len(self.archives)} archives of the bundle ({names}, ...)."
            )
        return self.files[filename].read(filename, typ)

    def set_allophones(self, filename: str) -> None:
        """:param filename: file with an allophone per line"""
        for archive in self.archives.values():
            archive.set_allophones(filename)

    def get_allophones_list(self) -> list[str]:
        """:return: by index"""
        return next((archive.get_allophones_list() for archive in self.archives.values()), [])


def open_file_archive(
    archive_filename: str, must_exists: bool = True, encoding: str = "ascii"
) -> FileArchive | FileArchiveBundle:
    """:return: the archive, or for the name ending `.bundle` all that are listed there"""
    if archive_filename.endswith(".bundle"):
        return FileArchiveBundle(archive_filename, encoding=encoding)
    return FileArchive(archive_filename, must_exists=must_exists, encoding=encoding)


def is_sprint_cache_file(filename: str) -> bool:
    """:return: whether it is an archive"""
    with open(filename, "rb") as file:
        return file.read(8) == FileArchive.SprintCacheHeader.encode("ascii")


def _frame_dtype(dim: int) -> numpy.dtype[numpy.void]:
    return numpy.dtype([("dim", "<u4"), ("features", "<f4", (dim,)), ("times", "<f8", (2,))])


def _parse_features(content: bytes) -> tuple[Times, Floats]:
    (count,) = struct.unpack_from("<I", content)
    if count == 0:
        return numpy.zeros((0, 2)), numpy.zeros((0, 0), "float32")
    (dim,) = struct.unpack_from("<I", content, 4)
    frames = numpy.frombuffer(content, _frame_dtype(dim), count=count, offset=4)
    if (frames["dim"] != dim).any():
        raise ValueError("the frames have different dims")
    return frames["times"].copy(), frames["features"].copy()


def _parse_alignment(content: bytes) -> Alignment:
    """After two numbers and the magic `ALIGNRLE`: run lengths, or with a flag in the count, a list of all items."""
    magic = content[8:16]
    if magic != b"ALIGNRLE":
        raise ValueError(f"the format of the alignment is {magic!r}, expected b'ALIGNRLE'")
    (count,) = struct.unpack_from("<I", content, 16)
    if count & _LIST_FLAG:
        items = struct.iter_unpack("<IIf", content[20 : 20 + 12 * (count ^ _LIST_FLAG)])
        return [(time, mix, 0, weight) for time, mix, weight in items]
    return list(_iter_runs(content, count))


def _iter_runs(content: bytes, count: int) -> Iterator[tuple[int, int, int, float]]:
    offset, time, done = 20, 0, 0
    while done < count:
        (run,) = struct.unpack_from("<b", content, offset)
        offset += 1
        if run == 0:  # jump to another frame
            (time,) = struct.unpack_from("<I", content, offset)
            offset += 4
            continue
        mixes: Sequence[int]
        if run > 0:  # so many different ones
            mixes = struct.unpack_from(f"<{run}I", content, offset)
        else:  # so many times the same one
            mixes = struct.unpack_from("<I", content, offset) * -run
        offset += 4 * max(run, 1)
        for mix in mixes:
            yield time, mix, 0, 1.0
            time += 1
        done += len(mixes)
