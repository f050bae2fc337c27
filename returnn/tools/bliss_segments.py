"""Segments of Bliss corpora: which ones, in which order, and neighbours joined."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from returnn.datasets.util.bliss import BlissSegment
from returnn.util.errors import UserError


def duration_of(segment: BlissSegment) -> float:
    """
    :return: in seconds
    :raises UserError: if the end is not known
    """
    if segment.end is None:
        raise UserError(f"Bliss segment {segment.name!r}: has no 'end', so its duration is not known.")
    return round(segment.end - segment.start, 6)


def recording_of(segment: BlissSegment, *, join_channels: bool = False) -> str:
    """
    :param segment: of some recording
    :param join_channels: whether "sw02001A" and "sw02001B" are one recording, as they are one call
    :return: name of the recording
    """
    recording = segment.name.rpartition("/")[0]
    return recording[:-1] if join_channels and recording[-1:] in ("A", "B") else recording


def sorted_by_time(segments: Iterable[BlissSegment], *, join_channels: bool = False) -> list[BlissSegment]:
    """:return: in the order of their start, recording by recording"""
    groups: dict[str, list[BlissSegment]] = {}
    for segment in segments:
        groups.setdefault(recording_of(segment, join_channels=join_channels), []).append(segment)
    return [segment for group in groups.values() for segment in sorted(group, key=lambda s: s.start)]


def joined_neighbours(
    segments: Sequence[BlissSegment], *, max_seconds: float, join_channels: bool = False
) -> list[list[BlissSegment]]:
    """
    :param segments: in their order
    :param max_seconds: from the start of the first to the end of the last one, unless it is one segment alone
    :param join_channels: see `recording_of`
    :return: neighbours of the same recording
    """
    found: list[list[BlissSegment]] = []
    for _, group in itertools.groupby(segments, lambda segment: recording_of(segment, join_channels=join_channels)):
        joined: list[BlissSegment] = []
        for segment in group:
            if joined and segment.start + duration_of(segment) - joined[0].start > max_seconds:
                found.append(joined)
                joined = []
            joined.append(segment)
        found.append(joined)
    return found
