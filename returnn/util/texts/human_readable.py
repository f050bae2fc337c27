"""Numbers as people read them."""

from __future__ import annotations

_PREFIXES = ("", "K", "M", "G", "T", "P")


def hms(s: float) -> str:
    """
    :param s: duration in seconds
    :return: as hours:minutes:seconds, e.g. "1:05:09"
    """
    minutes, seconds = divmod(int(s), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"


def hms_fraction(s: float, decimals: int = 4) -> str:
    """
    :param s: duration in seconds
    :param decimals: digits of the fraction of a second
    :return: as hours:minutes:seconds, e.g. "0:00:01.2500"
    """
    fraction = f"{s % 1:.{decimals}f}"
    whole = int(s) + (1 if fraction.startswith("1") else 0)  # rounding can reach the next second
    return hms(whole) + fraction[1:]


def human_size(n: float, factor: int = 1000, frac: float = 0.8, prec: int = 1) -> str:
    """
    :param n: a count
    :param factor: between two prefixes
    :param frac: a prefix is used from this part of it on
    :param prec: digits after the point
    :return: e.g. "1.5M"
    """
    prefixes = list(_PREFIXES)
    while abs(n) >= factor * frac and len(prefixes) > 1:
        prefixes.pop(0)
        n /= factor
    return f"{n:.{prec}f}{prefixes[0]}" if prefixes[0] else str(n)


def human_bytes_size(n: float, factor: int = 1024, frac: float = 0.8, prec: int = 1) -> str:
    """
    :param n: bytes
    :param factor: between two prefixes
    :param frac: a prefix is used from this part of it on
    :param prec: digits after the point
    :return: e.g. "1.5MB"
    """
    return human_size(n, factor=factor, frac=frac, prec=prec) + "B"
