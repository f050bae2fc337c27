"""Shows, or cleans up, the local file cache."""

import argparse
import os
import re
import time

from returnn.util.errors import UserError
from returnn.util.file_cache import FileCache
from returnn.util.system.command_parser import CommandParser
from returnn.util.texts.counted import counted
from returnn.util.texts.human_readable import human_bytes_size

_SIZE = re.compile(r"(\d+(?:\.\d*)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_UNITS = ("", "k", "m", "g", "t")
_DAY_S = 24 * 60 * 60
_CLEANUP_OPTIONS = (
    "cleanup_files_always_older_than_days",
    "cleanup_files_wanted_older_than_days",
    "cleanup_disk_usage_wanted_free_ratio",
    "cleanup_disk_usage_wanted_multiplier",
)


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = CommandParser(description=__doc__)
    parser.add_argument("action", choices=["info", "cleanup"], help="list the copies, or delete those not needed")
    parser.add_argument("--cache-dir", help="folder of the cache. Default: that of a config without file_cache_opts")
    parser.add_argument("--temp-dir", help="folder for temporary files, instead of TMPDIR; the cache is in there")
    parser.add_argument("--cleanup-files-always-older-than-days", type=float, help="delete what is older")
    parser.add_argument("--cleanup-files-wanted-older-than-days", type=float, help="so, if the disk is rather full")
    parser.add_argument("--cleanup-disk-usage-wanted-free-ratio", type=float, help="it is, if less of it is free")
    parser.add_argument("--cleanup-disk-usage-wanted-multiplier", type=float, help="or less than so often the space")
    parser.add_argument("--cleanup-require-free-space", default="0", help="space that has to be free, such as 10G")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    needed = _parse_size(args.cleanup_require_free_space)
    options = {name: value for name in _CLEANUP_OPTIONS if (value := getattr(args, name)) is not None}
    cache = _open_cache(args, options)
    if args.action == "info":
        if options or needed:
            raise UserError(f"'info' deletes nothing: leave out {', '.join(_given(options, needed))}.")
        _show(cache)
        return
    result = cache.cleanup(need_at_least_free_space_size=needed)
    print(f"{cache.cache_directory}: deleted {human_bytes_size(result.freed)}")
    if result.abort_reason is not None:
        raise UserError(f"file cache {cache.cache_directory!r}: {result.abort_reason}.")


def _open_cache(args: argparse.Namespace, options: dict[str, float]) -> FileCache:
    folder = {} if args.cache_dir is None else {"cache_directory": args.cache_dir}
    if args.temp_dir is None:
        return FileCache(**folder, **options)
    if not os.path.isdir(args.temp_dir):
        raise UserError(f"option '--temp-dir': there is no folder {args.temp_dir!r}.")
    before = os.environ.get("TMPDIR")
    os.environ["TMPDIR"] = args.temp_dir  # which the folder of the cache is named by
    try:
        return FileCache(**folder, **options)
    finally:
        if before is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = before


def _show(cache: FileCache) -> None:
    files = sorted(cache.iter_files())
    now = time.time()
    for last_used, size, path in files:
        print(f"{human_bytes_size(size)}\t{(now - last_used) / _DAY_S:.1f} days\t{path}")
    print(
        f"{cache.cache_directory}: {counted(len(files), 'file')}, {human_bytes_size(sum(size for _, size, _ in files))}"
    )


def _given(options: dict[str, float], needed: int) -> list[str]:
    names = [*options, *(["cleanup_require_free_space"] if needed else [])]
    return [f"'--{name.replace('_', '-')}'" for name in names]


def _parse_size(text: str) -> int:
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UserError(f"option '--cleanup-require-free-space': {text!r} is no size, such as 500M or 10G.")
    return int(float(match[1]) * 1024 ** _UNITS.index(match[2].lower()))
