"""
The files of a repository at a version, which are fetched once and kept.

A version is the date and the hash of a commit: `YYYYMMDD-HASH` or `YYYYMMDDhhmmss-HASH`. The date is for people, it
has to be that of the commit. Without a version, it is a clone of the default branch, to be edited and updated by hand.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable

from returnn.import_.common import InvalidVersion, logger, package_path
from returnn.util.errors import UserError
from returnn.util.files.file_lock import LockFile
from returnn.util.system.version import git_commit_date
from returnn.util.system.warn_once import warn_once

_VERSION = re.compile(r"(\d{8}(?:\d{6})?)-([0-9a-f]{7,40})")


def stat_repo(repo: str, version: str | None) -> None:
    """
    Makes sure that the files are there.

    :param repo: e.g. "github.com/rwth-i6/returnn-experiments"
    :param version: None for the one in development
    :raises InvalidVersion: if there is no such version
    :raises UserError: if the repository cannot be fetched
    """
    path = _path(repo, version)
    if os.path.exists(path):
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with LockFile(os.path.dirname(path), f".{os.path.basename(repo)}.lock"):
        if os.path.exists(path):  # somebody else has done it meanwhile
            return
        logger.info("fetches %s, version %s", repo, version or "dev")
        if version is None:
            _complete(path, lambda temp_path: _git("clone", "--quiet", _url(repo), temp_path))
        else:
            archive = _git_archive(repo, version)
            _complete(path, lambda temp_path: _extract(archive, temp_path))


def get_repo_path(repo: str, version: str | None, _report_dev_version_usage_stack_frame_depth: int = 1) -> str:
    """
    :param repo: e.g. "github.com/rwth-i6/returnn-experiments"
    :param version: None for the one in development, which is worth a warning
    :return: folder with the files
    :raises InvalidVersion: if there is no such version
    :raises UserError: if the repository cannot be fetched
    """
    stat_repo(repo, version)
    path = _path(repo, version)
    if version is None and _report_dev_version_usage_stack_frame_depth > 0:
        warn_once(f"import_: {repo} without a version is whatever is in {path}")
    return path


def _path(repo: str, version: str | None) -> str:
    if version is not None and not _VERSION.fullmatch(version):
        raise InvalidVersion(f"import_: {version!r} is no version of {repo!r}.\n  Possible: 'YYYYMMDD-HASH'.")
    return os.path.join(package_path(), f"{repo}@v{version}" if version else f"{repo}@dev")


def _url(repo: str) -> str:
    return f"https://{repo}"


def _git_archive(repo: str, version: str) -> bytes:
    """:return: all files of the version, as tar"""
    date, commit = version.split("-")
    mirror = os.path.join(package_path(), f"{repo}+mirror.git")
    if not os.path.exists(mirror):
        _complete(mirror, lambda temp_path: _git("clone", "--quiet", "--mirror", _url(repo), temp_path))
    elif not git_commit_date(commit, git_dir=mirror):
        _git("-C", mirror, "remote", "update")
    found = git_commit_date(commit + "^{commit}", git_dir=mirror).replace(".", "")
    if not found:
        raise InvalidVersion(f"import_: the repository {repo!r} has no commit {commit!r}.")
    if not found.startswith(date):
        raise InvalidVersion(f"import_: commit {commit!r} of {repo!r} is of {found}, not of {date}.")
    return _git("-C", mirror, "archive", commit)


def _complete(path: str, make: Callable[[str], object]) -> None:
    """Makes a folder aside, and renames it when it is complete."""
    temp_path = tempfile.mkdtemp(prefix=f".{os.path.basename(path)}.", dir=os.path.dirname(path))
    try:
        make(temp_path)
        os.rename(temp_path, path)
    finally:
        shutil.rmtree(temp_path, ignore_errors=True)


def _extract(archive: bytes, path: str) -> None:
    with tarfile.open(fileobj=io.BytesIO(archive)) as file:
        file.extractall(path, filter="data")


def _git(*args: str) -> bytes:
    result = subprocess.run(["git", *args], capture_output=True, check=False)
    if result.returncode != 0:
        reason = result.stderr.decode("utf8", "replace").strip().splitlines()[-1:]
        raise UserError(f"import_: 'git {' '.join(args[:2])} ...' failed: {' '.join(reason)}")
    return result.stdout
