"""
Both are built as a release is. The source archive has all files, and the wheel, made of it, all tools. Their help, and
what needs no TensorFlow, works without optional packages. What describes both is right.
"""

import os
import subprocess
import sys
import tarfile

import pytest
from packaging.metadata import Metadata

from returnn.tools.registry import tool_modules
from returnn.util.native_code_compiler import get_cpp_bin
from tests.tools.conftest import TOOLS

ROOT = TOOLS.parent
WITHOUT_OPTIONAL_PACKAGES = """
import importlib.abc, sys

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in {optional!r}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
"""
OPTIONAL = ("tensorflow", "keras", "torch", "matplotlib", "sentencepiece", "soundfile", "sacrebleu", "scipy", "kenlm")
HELP_OF_ALL = """
import contextlib, io
from returnn.__main__ import main
from returnn.tools.registry import tool_modules
for name in tool_modules():
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        main(["returnn", "tool", name, "--help"])
    print(text.getvalue().partition(chr(10))[0])
"""


MISSING_TENSORFLOW = "The package 'tensorflow' is needed for {}.\n  pip install tensorflow-cpu\n"
PARTS = (
    ".ci", ".gitignore", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "MANIFEST.in", "README.md", "benchmarks",
    "demos", "docs", "mkdocs.yml", "pyproject.toml", "returnn", "rnn.py", "setup.py", "tests", "tools",
)  # fmt: skip


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """:return: folder with source archive and wheel"""
    folder = tmp_path_factory.mktemp("built")
    source = folder / "source"
    source.mkdir()
    for name in PARTS:  # so that nothing is left behind in the checkout
        os.symlink(ROOT / name, source / name)
    compiler = folder / "compiler"
    compiler.write_text(f'#!/bin/sh\nexec {get_cpp_bin()} "$@" -O0\n')  # how fast its kernels are, others test
    compiler.chmod(0o755)
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, source],
        cwd=folder, env={**os.environ, "CXX": str(compiler)}, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """The wheel, unpacked into a folder, beside something that hides optional packages; runs Python there."""
    folder = tmp_path_factory.mktemp("installed")
    (wheel,) = built.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, "install", "--no-deps", "--no-index", "--target", folder / "site", wheel], check=True)
    (folder / "site" / "sitecustomize.py").write_text(WITHOUT_OPTIONAL_PACKAGES.replace("{optional!r}", repr(OPTIONAL)))

    def run(*args):
        env = {**os.environ, "PYTHONPATH": str(folder / "site")}
        return subprocess.run([sys.executable, *args], cwd=folder, env=env, capture_output=True, text=True, check=False)

    run.site = folder / "site"
    return run


def test_metadata_is_valid_and_the_same_as_in_the_code(installed):
    (info,) = installed.site.glob("returnn-*.dist-info")
    metadata = Metadata.from_email((info / "METADATA").read_bytes(), validate=True)
    assert str(metadata.version) == installed("-c", "import returnn; print(returnn.__version__)").stdout.strip()
    assert metadata.description_content_type == "text/markdown"
    assert metadata.license_expression == "Apache-2.0"
    assert {"cpu", "gpu", "torch", "audio", "text", "onnx", "docs", "test"} <= set(metadata.provides_extra)
    assert (info / "entry_points.txt").read_text().split() == [
        "[console_scripts]", "returnn", "=", "returnn.__main__:main_and_exit",
    ]  # fmt: skip


def test_types_are_known_to_users(installed):
    assert (installed.site / "returnn" / "py.typed").exists()


@pytest.fixture(scope="module")
def archive(built):
    """:return: files of the source archive, by name"""
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as file:
        files = {member.name: file.extractfile(member).read() for member in file.getmembers() if member.isfile()}
    folder = path.name.removesuffix(".tar.gz")
    assert {name.partition("/")[0] for name in files} == {folder}
    return {name.removeprefix(f"{folder}/"): content for name, content in files.items()}


def test_source_archive_has_all_files(archive):
    assert not [name for name in archive if name.endswith(".pyc")]
    if not (ROOT / ".git").exists():
        pytest.skip("there is no git to ask which files there are")
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    assert not {name for name in names if (ROOT / name).exists()} - set(archive)


def test_source_archive_is_described_as_the_wheel(archive, installed):
    """What `twine check --strict` wants, too: valid, with a text in a format that is said."""
    (info,) = installed.site.glob("returnn-*.dist-info")
    in_wheel, in_archive = (
        Metadata.from_email(content, validate=True)
        for content in ((info / "METADATA").read_bytes(), archive["PKG-INFO"])
    )
    assert in_archive.description == in_wheel.description == archive["README.md"].decode()
    for name in ("name", "version", "summary", "description_content_type", "license_expression", "requires_dist"):
        assert getattr(in_archive, name) == getattr(in_wheel, name), name


def test_help_of_all_tools(installed):
    result = installed("-c", HELP_OF_ALL)
    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert [line.split()[:4] for line in lines] == [["usage:", "returnn", "tool", name] for name in tool_modules()]


def test_tool_of_the_wheel_works(installed, tmp_path):
    (tmp_path / "a").write_text("one two\n")
    result = installed("-m", "returnn", "tool", "score", tmp_path / "a", tmp_path / "a")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("WER 0.00%")


def test_pages_of_the_wheel_are_whole(installed, tmp_path):
    result = installed("-m", "returnn", "view", tmp_path, "--export", tmp_path / "page.html")
    assert (result.returncode, result.stderr) == (0, "")
    text = (tmp_path / "page.html").read_text("utf8")
    assert "The MIT License" in text
    assert "{{" not in text.partition("<script>")[0]
    service = "from returnn.serve.model_service import _PAGE; assert _PAGE.read_bytes()"
    assert installed("-c", service).returncode == 0


def test_missing_framework_is_said(installed):
    result = installed("-m", "returnn", "tool", "tf-inspect-checkpoint", "net.001")
    assert result.returncode == 1
    assert result.stderr == f"error: {MISSING_TENSORFLOW.format('checkpoints of TensorFlow')}"
    result = installed("-m", "returnn", "++task", "train")
    assert result.returncode == 1
    assert result.stderr.endswith(MISSING_TENSORFLOW.format("backend = 'tensorflow-net-dict', the default"))
    result = installed("-m", "returnn", "++task", "train", "++backend", "torch")
    assert result.returncode == 1
    assert result.stderr.endswith("The package 'torch' is needed for backend = 'torch'.\n  pip install torch\n")
