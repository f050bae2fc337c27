"""Which version of the toolkit, and of what it is built on, this is."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import subprocess

__version__ = "2.0.0.dev0"
returnn_root_dir = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


def describe_returnn_version() -> str:
    """:return: e.g. "2.0.0+git.1a2b3c4.dirty"; without the commit if this is no git checkout"""
    if not os.path.exists(os.path.join(returnn_root_dir, ".git")):
        return __version__
    commit = git_commit_rev(git_dir=returnn_root_dir, length=7)
    dirty = ".dirty" if commit and git_is_dirty(git_dir=returnn_root_dir) else ""
    return f"{__version__}+git.{commit}{dirty}" if commit else __version__


def describe_tensorflow_version() -> str:
    """:return: version of the installed package, found without importing it"""
    return describe_package_version("tensorflow", "tensorflow-cpu", "tf-nightly")


def describe_torch_version() -> str:
    """:return: version of the installed package, found without importing it"""
    return describe_package_version("torch")


def describe_package_version(*names: str) -> str:
    """:return: version of the first of these packages which is installed"""
    for name in names:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "not installed"


def get_tensorflow_version_tuple() -> tuple[int, ...]:
    """:return: e.g. (2, 21, 0); empty if TensorFlow is not installed"""
    parts = describe_tensorflow_version().split(".")
    return tuple(int(part) for part in parts if part.isdigit())


def git_commit_rev(commit: str = "HEAD", git_dir: str = ".", length: int | None = None) -> str:
    """:return: hash of the commit; empty if it cannot be found"""
    return _git(git_dir, "rev-parse", f"--short={length}" if length else "--verify", commit)


def git_commit_date(commit: str = "HEAD", git_dir: str = ".") -> str:
    """:return: date and time of the commit, as in "20240131.235959" """
    return _git(git_dir, "show", "-s", "--format=%cd", "--date=format:%Y%m%d.%H%M%S", commit)


def git_is_dirty(git_dir: str = ".") -> bool:
    """:return: whether there are changes that are not committed"""
    return bool(_git(git_dir, "status", "--porcelain", "--untracked-files=no"))


def git_describe_head_version(git_dir: str = ".") -> str:
    """:return: date and hash of the last commit, and whether there are changes"""
    dirty = "-dirty" if git_is_dirty(git_dir=git_dir) else ""
    return f"{git_commit_date(git_dir=git_dir)}--git-{git_commit_rev(git_dir=git_dir, length=7)}{dirty}"


@functools.cache
def _git(git_dir: str, *args: str) -> str:
    try:
        result = subprocess.run(["git", "-C", git_dir, *args], capture_output=True, text=True, check=False)
    except FileNotFoundError:  # no git here
        return ""
    return result.stdout.strip() if result.returncode == 0 else ""
