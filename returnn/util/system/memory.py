"""How much memory this process takes, and how much there is."""

from __future__ import annotations

import contextlib
import os
import re
import resource

_CGROUPS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def used_bytes() -> int:
    """:return: of this process, in the memory of the machine"""
    return _own("VmRSS")


def peak_bytes() -> int:
    """:return: the most that this process had since `reset_peak`, where that is possible, or since its start"""
    return _own("VmHWM")


def reset_peak() -> None:
    """The peak begins anew."""
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w", encoding="utf8") as file:
        file.write("5")


def available_bytes() -> int:
    """:return: what processes can still get, of the machine, or of the container if that has less"""
    found = _number("/proc/meminfo", r"^MemAvailable:\s*(\d+) kB")
    left = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES") if found is None else 1024 * found
    for limit_name, used_name in _CGROUPS:
        limit, used = _number(limit_name), _number(used_name)
        if limit is not None and used is not None:
            left = min(left, limit - used)
    return left


def _own(name: str) -> int:
    found = _number("/proc/self/status", rf"^{name}:\s*(\d+) kB")
    return 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss if found is None else found)


def _number(filename: str, pattern: str = r"^(\d+)$") -> int | None:
    """:return: None if there is none"""
    try:
        with open(filename, encoding="utf8") as file:
            match = re.search(pattern, file.read(), re.MULTILINE)
    except OSError:
        return None
    return None if match is None else int(match[1])
