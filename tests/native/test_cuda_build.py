import logging
import re

import pytest

from returnn.native import cuda
from returnn.native.cuda import CudaCompiler, CudaLibrary, architecture_flags
from returnn.util.cuda_env import CudaEnv
from returnn.util.errors import UserError
from returnn.util.system.warn_once import forget_shown
from tests.native import kernels

KNOWN = [75, 80, 86, 89, 90]
GPU = (("some GPU", (8, 0)),)
SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RETURNN_CACHE_DIR", str(tmp_path / "cache"))
    cuda.get_cuda_library.cache_clear()
    CudaEnv.get_instance.cache_clear()
    forget_shown()
    yield
    cuda.get_cuda_library.cache_clear()
    CudaEnv.get_instance.cache_clear()
    forget_shown()


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [
        ([(8, 0)], ["arch=compute_80,code=sm_80"]),
        ([(9, 0), (7, 5), (9, 0)], ["arch=compute_75,code=sm_75", "arch=compute_90,code=sm_90"]),
        ([(8, 7)], ["arch=compute_86,code=compute_86"]),
        ([(12, 0)], ["arch=compute_90,code=compute_90"]),
    ],
)
def test_architectures(capabilities, expected):
    """Machine code for what the compiler knows; for others, what the driver translates."""
    assert architecture_flags(capabilities, KNOWN) == [f"-gencode={flag}" for flag in expected]


def test_gpu_that_is_too_old():
    with pytest.raises(UserError, match=r"capability 7\.0, but this nvcc compiles for 7\.5 and newer"):
        architecture_flags([(7, 0)], KNOWN)


def test_missing_compiler_is_one_warning(monkeypatch, caplog):
    monkeypatch.setenv("DISABLE_CUDA", "1")
    for _ in range(2):
        assert cuda.get_cuda_library(GPU) is None
        cuda.get_cuda_library.cache_clear()
    (record,) = caplog.records
    assert record.getMessage() == (
        "WARNING: There are no native kernels for the GPU, recurrent layers may be slower: there is no nvcc: "
        "it is neither in PATH nor in CUDA_PATH, CUDA_HOME or /usr/local/cuda."
    )


def test_failing_compiler_is_a_warning_with_its_first_error(monkeypatch, tmp_path, caplog):
    nvcc = tmp_path / "bin" / "nvcc"
    nvcc.parent.mkdir()
    nvcc.write_text(
        "#!/bin/sh\n"
        "case $1 in --version) echo 'release 12.4, V1';; --list-gpu-code) echo sm_80;;\n"
        "*) echo 'note: hello'; echo 'fatal error: it is broken'; exit 1;; esac\n",
        encoding="utf8",
    )
    nvcc.chmod(0o755)
    monkeypatch.setenv("CUDA_PATH", str(tmp_path))
    assert cuda.get_cuda_library(GPU) is None
    assert caplog.records[-1].getMessage().splitlines()[0] == (
        "WARNING: There are no native kernels for the GPU, recurrent layers may be slower: "
        "kernels for GPUs cannot be compiled: fatal error: it is broken"
    )


@pytest.mark.parametrize("variable", ["RETURNN_NATIVE", "RETURNN_CUDA"])
def test_kernels_can_be_turned_off(variable, monkeypatch, caplog):
    monkeypatch.setenv(variable, "0")
    assert cuda.get_cuda_library(GPU) is None
    assert not caplog.records


def test_without_a_gpu_there_is_nothing_to_compile(caplog):
    caplog.set_level(logging.INFO, logger="returnn")
    assert cuda.get_cuda_library(()) is None
    assert not caplog.records


def test_table_of_methods():
    assert cuda.read_method_table() == {}
    cuda.write_method_table("a", [(512, 64, "persistent")])
    cuda.write_method_table("b", [(512, 1, "stepwise")])
    cuda.write_method_table("a", [(256, 64, "persistent")])
    assert cuda.read_method_table() == {"a": [(256, 64, "persistent")], "b": [(512, 1, "stepwise")]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "a table of methods is {gpu: [[units, batch, method], ...]}"),
        ('{"a": [[1, 2]]}', "a table of methods is {gpu: [[units, batch, method], ...]}"),
        ('{"a": [[1, 2, "fast"]]}', "there is no method 'fast'. Possible: rule, stepwise, persistent."),
    ],
)
def test_wrong_table_of_methods(content, message, tmp_path, monkeypatch):
    path = tmp_path / "methods.json"
    path.write_text(content, encoding="utf8")
    monkeypatch.setenv("RETURNN_CUDA_METHODS", str(path))
    with pytest.raises(UserError) as info:
        cuda.read_method_table()
    assert str(info.value).startswith(f"{path}: {message}")


def sources_and_gpus():
    """One of them is compiled in every run."""
    for source in sorted(cuda.CUDA_SOURCES.glob("*.cu")):
        if source.stem == "check":  # it has nothing to compute
            continue
        is_lstm = source.stem == "lstm"
        for capability in ((8, 0), (9, 0), (7, 5)) if is_lstm else ((8, 0),):
            marks = [] if is_lstm and capability == (8, 0) else pytest.mark.slow
            yield pytest.param(source, capability, marks=marks, id=f"{source.stem}-{capability}")


@pytest.mark.parametrize(("source", "capability"), list(sources_and_gpus()))
def test_all_compiles_and_registers_suffice(source, capability, tmp_path):
    """The assembler tells of values for which a thread has no register."""
    if not CudaEnv.get_instance():
        pytest.skip("there is no nvcc")
    if 10 * capability[0] + capability[1] not in cuda.known_architectures(cuda.find_nvcc()):
        pytest.skip("this nvcc makes no machine code for it")
    compiler = CudaCompiler(capabilities=[capability])
    args = ["-cubin", "-Xptxas=-v", str(source), "-o", str(tmp_path / "code"), *compiler._compiler_flags()]
    spills = SPILLS.findall(compiler.run_compiler(args))
    assert spills
    assert {int(size) for pair in spills for size in pair} == {0}


@pytest.mark.slow
def test_whole_library(caplog):
    """It needs no driver to be linked and loaded. That it does not run here, if so, is a warning with the reason."""
    if not CudaEnv.get_instance():
        pytest.skip("there is no nvcc")
    library = CudaLibrary(CudaCompiler(capabilities=[GPU[0][1]]).get_lib_filename())
    if error := library.device_error():
        assert cuda.get_cuda_library(GPU) is None
        assert caplog.records[-1].getMessage() == (
            f"WARNING: There are no native kernels for the GPU, recurrent layers may be slower: {error}."
        )
    assert library.level == "cuda"
    of_cpu = kernels.library().kernels
    assert library.kernels
    for name, kernel in library.kernels.items():
        assert kernel.signature == of_cpu[name].signature
