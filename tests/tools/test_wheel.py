"""
The wheel has all tools. Their help, and what needs no TensorFlow, works without optional packages. What describes it is
right, and the source archive has all files.
"""

import os
import subprocess
import sys

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
PARTS_OF_WHEEL = ("returnn", "pyproject.toml", "setup.py", "README.md", "LICENSE")


def link_sources(folder, names):
    """Something to build in, which leaves nothing behind in the checkout."""
    folder.mkdir()
    for name in names:
        os.symlink(ROOT / name, folder / name)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The wheel, unpacked into a folder, beside something that hides optional packages; runs Python there."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    options = ["--no-deps", "--no-index"]
    source = folder / "source"
    link_sources(source, PARTS_OF_WHEEL)
    compiler = folder / "compiler"
    compiler.write_text(f'#!/bin/sh\nexec {get_cpp_bin()} "$@" -O0\n')  # how fast its kernels are, others test
    compiler.chmod(0o755)
    subprocess.run(
        [*pip, "wheel", *options, "--no-build-isolation", "-w", folder, source],
        env={**os.environ, "CXX": str(compiler)}, check=True,
    )  # fmt: skip
    (wheel,) = folder.glob("*.whl")
    subprocess.run([*pip, "install", *options, "--target", folder / "site", wheel], check=True)
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


def test_source_archive_has_all_files(tmp_path):
    if not (ROOT / ".git").exists():
        pytest.skip("there is no git to ask which files there are")
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    link_sources(tmp_path / "source", {name.partition("/")[0] for name in files})
    subprocess.run([sys.executable, "setup.py", "-q", "egg_info"], cwd=tmp_path / "source", check=True)
    listed = (tmp_path / "source" / "returnn.egg-info" / "SOURCES.txt").read_text().splitlines()
    assert not set(files) - set(listed)
    assert not [name for name in listed if name.endswith(".pyc")]


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
