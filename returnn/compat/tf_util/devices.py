"""TensorFlow's version, its devices and threads, and what runs where."""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Collection, Mapping
from typing import Any, TextIO

import tensorflow as tf
from tensorflow.python.client import device_lib
from tensorflow.python.framework import kernels

from returnn.util.errors import UserError
from returnn.util.native_code_compiler import get_cc_bin, get_cpp_bin
from returnn.util.system.machine import guess_requested_max_num_threads

tf1 = tf.compat.v1


def tf_version_tuple() -> tuple[int, ...]:
    """:return: such as (2, 21, 0)"""
    return tuple(int(part) for part in re.findall(r"\d+", tf.__version__)[:3])


def have_min_tf_version(version: tuple[int, ...]) -> bool:
    """:return: whether TensorFlow is at least as new, such as (2, 5)"""
    return tf_version_tuple() >= tuple(version)


def assert_min_tf_version(version: tuple[int, ...], reason: str) -> None:
    """
    :param version: such as (2, 5)
    :param reason: for the message
    :raises UserError: if TensorFlow is older
    """
    if not have_min_tf_version(version):
        wanted = ".".join(map(str, version))
        raise UserError(f"TensorFlow {wanted} is needed: {reason}.\n  This is {tf.__version__}.")


def is_tf_cuda_build() -> bool:
    """:return: whether this TensorFlow was built for GPUs"""
    return tf.test.is_built_with_cuda()


def get_tf_gcc_version() -> str | None:
    """:return: version of the compiler that made this TensorFlow, None if it was not GCC"""
    match = re.match(r"\d+(\.\d+)*", tf.version.COMPILER_VERSION)
    return match[0] if match else None


def get_tf_gcc_path() -> str:
    """:return: C compiler to make libraries for this TensorFlow with"""
    return get_cc_bin()


def get_tf_gpp_path() -> str:
    """:return: C++ compiler to make libraries for this TensorFlow with"""
    return get_cpp_bin()


# Devices.


@functools.cache
def _local_devices() -> tuple[Any, ...]:
    return tuple(device_lib.list_local_devices())


def get_tf_list_local_devices(
    tf_session_opts: Mapping[str, Any] | None = None, file: TextIO | None = None
) -> list[Any]:
    """
    :param tf_session_opts: `tf_session_opts` of the config. Devices are the same for all sessions of a process
    :param file: to write to what is done
    :return: descriptions of all devices, with `name`, `device_type`, `memory_limit`
    """
    if file is not None:
        print("Collecting TensorFlow device list...", file=file)
    setup_tf_thread_pools(tf_session_opts=tf_session_opts)
    return list(_local_devices())


def get_device_attr(dev: str) -> str:
    """
    :param dev: name of a device, such as "/device:GPU:0"
    :return: what it says about itself
    """
    number = dev.rpartition("device:")[2].upper()
    for device in _local_devices():
        if device.name.upper().endswith(number):
            return device.physical_device_desc or device.device_type
    raise UserError(
        f"there is no device {dev!r}.\n  Possible: {', '.join(device.name for device in _local_devices())}."
    )


def print_available_devices(tf_session_opts: Mapping[str, Any] | None = None, file: TextIO | None = None) -> None:
    """
    :param tf_session_opts: `tf_session_opts` of the config
    :param file: default: the standard output
    """
    file = file or sys.stdout
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    print(f"CUDA_VISIBLE_DEVICES is {'not set' if visible is None else repr(visible)}.", file=file)
    devices = get_tf_list_local_devices(tf_session_opts=tf_session_opts)
    print("Local devices available to TensorFlow:", file=file)
    for i, device in enumerate(devices, start=1):
        text = device.physical_device_desc or f"{device.memory_limit} bytes"
        print(f"  {i}/{len(devices)}: {device.name} ({device.device_type}) {text}", file=file)


def is_gpu_available() -> bool:
    """:return: whether TensorFlow has a GPU"""
    return bool(tf.config.list_physical_devices("GPU"))


def is_gpu_available_in_session(session: tf1.Session | None = None) -> bool:
    """:return: whether a session has a GPU; default: the current one"""
    session = session or tf1.get_default_session()
    assert session is not None, "there is no session"
    return any(device.device_type == "GPU" for device in session.list_devices())


def get_available_gpu_devices() -> list[Any]:
    """:return: descriptions of all GPUs"""
    return [device for device in _local_devices() if device.device_type == "GPU"] if is_gpu_available() else []


def get_available_gpu_cuda_min_compute_capability() -> float | None:
    """:return: of the oldest GPU that is there, such as 7.5; None without GPU"""
    texts = [device.physical_device_desc for device in get_available_gpu_devices()]
    found = [float(match[1]) for text in texts if (match := re.search(r"compute capability: (\d+\.\d+)", text))]
    return min(found, default=None)


def mem_usage_for_dev(dev_name: str) -> tf.Tensor:
    """
    :param dev_name: such as "GPU:0"
    :return: raw scalar, int64: memory in use there, in bytes. 0 for a device that does not count it
    """

    def usage() -> int:
        try:
            return tf.config.experimental.get_memory_info(dev_name)["current"]
        except ValueError:
            return 0

    return tf.numpy_function(usage, [], tf.int64)


# Threads.


def setup_tf_thread_pools(
    num_threads: int | None = None,
    log_file: TextIO | None = None,
    tf_session_opts: Mapping[str, Any] | None = None,
) -> None:
    """
    Sets how many threads TensorFlow uses. This works once in a process, before anything was computed.

    :param num_threads: default: what the cluster or the environment gives this process; 0: as TensorFlow likes
    :param log_file: to write to
    :param tf_session_opts: `intra_op_parallelism_threads` and `inter_op_parallelism_threads` have priority
    """
    options = tf_session_opts or {}
    if num_threads is None:
        num_threads = guess_requested_max_num_threads(log_file=log_file, fallback_num_cpus=False) or 0
    wanted = {
        "intra_op": options.get("intra_op_parallelism_threads", num_threads),
        "inter_op": options.get("inter_op_parallelism_threads", num_threads),
    }
    for name, number in wanted.items():
        getter = getattr(tf.config.threading, f"get_{name}_parallelism_threads")
        if number and getter() != number:
            try:
                getattr(tf.config.threading, f"set_{name}_parallelism_threads")(number)
            except RuntimeError as exc:
                print(f"Number of threads ({name}) stays {getter()}: {exc}", file=log_file or sys.stdout)


def check_initial_tf_thread_pool_init(tf_session_opts: Mapping[str, Any] | None = None) -> None:
    """
    Sets how many threads TensorFlow uses, if this was not done.

    :param tf_session_opts: see `setup_tf_thread_pools`
    """
    if not tf.config.threading.get_intra_op_parallelism_threads():
        setup_tf_thread_pools(tf_session_opts=tf_session_opts)


# Which operation can run where.


def kernels_registered_for_op(op_name: str) -> list[str]:
    """
    :param op_name: type of an operation, such as "MatMul"
    :return: a line for each kernel, such as "device='CPU'; T in [DT_FLOAT]"
    """
    lines = []
    for kernel in kernels.get_registered_kernels_for_op(op_name).kernel:
        types = [_as_text(c.name, c.allowed_values.list.type) for c in kernel.constraint]
        lines.append("; ".join([f"device={kernel.device_type!r}", *types]))
    return lines


def _as_text(name: str, types: Collection[int]) -> str:
    return f"{name} in [{', '.join(tf.as_dtype(number).name for number in types)}]"


def supported_devices_for_op(op_name: str) -> list[str]:
    """
    :param op_name: type of an operation
    :return: such as ["CPU", "GPU"]
    """
    return sorted({kernel.device_type for kernel in kernels.get_registered_kernels_for_op(op_name).kernel})


def find_unsupported_devices_in_graph(
    graph: tf.Graph, dev_name: str, ignore: Collection[str] | None = None
) -> list[tf.Operation]:
    """
    :param graph: graph
    :param dev_name: "CPU" or "GPU"
    :param ignore: types of operations that do not count; default: those about files, summaries and checks
    :return: operations which have no kernel for the device
    """
    if ignore is None:
        ignore = {"Assert", "MergeV2Checkpoints", "SaveV2", "RestoreV2", "Const", "PyFunc", "EagerPyFunc"}
    found = []
    for op in graph.get_operations():
        skip = op.type in ignore or "Summary" in op.type or "String" in op.type
        if not skip and dev_name not in supported_devices_for_op(op.type):
            found.append(op)
    return found
