import os
import subprocess
import sys

import pytest

from returnn.import_ import import_
from returnn.import_.common import InvalidVersion, MissingExplicitImport
from returnn.import_.git import get_repo_path
from returnn.util.errors import ConfigError, UserError

REPO = "example.org/user/some-repo"


@pytest.fixture
def git(tmp_path, monkeypatch):
    """A repository which git finds at https://example.org."""
    origin = tmp_path / "origin" / "user" / "some-repo"
    (origin / "common").mkdir(parents=True)
    for key, value in {
        "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": f"url.{tmp_path}/origin/.insteadOf",
        "GIT_CONFIG_VALUE_0": "https://example.org/", "RETURNN_PKG_PATH": str(tmp_path / "pkg"),
        "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@a", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@a",
        "GIT_COMMITTER_DATE": "2021-03-02T12:00:00", "GIT_AUTHOR_DATE": "2021-03-02T12:00:00",
    }.items():  # fmt: skip
        monkeypatch.setenv(key, value)

    def run(*args):
        return subprocess.run(["git", "-C", origin, *args], check=True, capture_output=True, text=True).stdout.strip()

    def commit(value):
        (origin / "common" / "base.py").write_text(f"value = {value}\n")
        (origin / "common" / "models.py").write_text("from .base import value\n")
        run("add", ".")
        run("commit", "-qm", "x")
        return f"20210302-{run('rev-parse', '--short=12', 'HEAD')}"

    run("init", "-q")
    yield commit
    for name in [name for name in sys.modules if name.startswith("returnn_import")]:
        del sys.modules[name]


def test_versions_live_side_by_side(git, tmp_path):
    first = git(1)
    assert import_(REPO, "common/models.py", first).value == 1
    second = git(2)  # the repository has to be fetched once more
    assert import_(REPO, "common/models.py", second).value == 2
    assert import_(REPO, "common/models", first).value == 1
    assert import_(REPO, "common", first).models.value == 1
    assert sorted(os.listdir(tmp_path / "pkg" / "example.org" / "user")) == sorted(
        [f"some-repo@v{first}", f"some-repo@v{second}", "some-repo+mirror.git"]
    )


def test_development_version_is_a_clone(git):
    git(1)
    module = import_(REPO, "common/models.py")
    assert module.value == 1
    path = get_repo_path(REPO, None)
    assert os.path.exists(os.path.join(path, ".git"))
    assert module.__file__.startswith(path)


def test_what_is_fetched_needs_no_network(git, monkeypatch):
    version = git(1)
    path = get_repo_path(REPO, version)
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "https://other.org/")
    assert get_repo_path(REPO, version) == path


@pytest.mark.parametrize(
    ("version", "error", "message"),
    [
        ("main", InvalidVersion, r"import_: 'main' is no version of .*\n  Possible: 'YYYYMMDD-HASH'\."),
        ("20210302-0123456789ab", InvalidVersion, r"has no commit '0123456789ab'\."),
        ("date", InvalidVersion, r"is of 20210302120000, not of 20200101\."),
        ("file", ConfigError, r"has no file 'missing\.py'\."),
    ],
)
def test_wrong_versions_and_files(git, version, error, message):
    good = git(1)
    path = "missing.py" if version == "file" else "common/models.py"
    version = {"file": good, "date": "20200101" + good[8:]}.get(version, version)
    with pytest.raises(error, match=message):
        import_(REPO, path, version)


def test_missing_repository(git):
    with pytest.raises(UserError, match=r"import_: 'git clone --quiet \.\.\.' failed: "):
        import_("example.org/user/other", "a.py", "20210302-0123456789ab")


def test_modules_have_to_be_imported_first(git):
    package = import_(REPO, "common", git(1)).__name__.rpartition(".")[0]
    with pytest.raises(MissingExplicitImport, match=r"import_\(repo, path, version\) makes it known"):
        sys.modules[package].other  # noqa: B018 (the access is the test)
