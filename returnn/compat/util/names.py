"""Documented path: hands on what configs import from `returnn.util.basic`. Each theme has a module of its own."""

from __future__ import annotations

from returnn.compat.system.commands import (
    pip_check_is_installed,
    pip_install,
    sys_cmd_out_lines,
    sys_exec_out,
    sys_exec_ret_code,
    which,
    which_pip,
)
from returnn.compat.system.modules import ReportImportedDevModules, generic_import_module
from returnn.compat.system.patched_packages import monkeyfix_glib, monkeypatch_audioread
from returnn.compat.system.process_exec import (
    auto_prefix_os_exec_prefix_ubuntu,
    close_all_fds_except,
    get_lsb_release,
    get_patch_atfork_lib,
    get_ubuntu_major_version,
    is_valid_fd,
    maybe_restart_returnn_with_atfork_patch,
    overwrite_os_exec,
    restart_returnn,
)
from returnn.compat.system.run_info import (
    get_model_filename_postfix,
    get_utc_start_time_filename_part,
    log_runtime_info_to_dir,
    should_write_to_disk,
    start_time,
)
from returnn.compat.system.shared_libs import (
    collect_proc_maps_exec_files,
    dummy_numpy_gemm_call,
    find_lib,
    find_libcudart_from_runtime,
    find_sgemm_libs_from_runtime,
    find_sym_in_exec,
    get_ld_paths,
    make_dll_name,
    parse_ld_conf_file,
)
from returnn.compat.util.broadcasting import validate_broadcast_all_sources
from returnn.compat.util.dicts import CollectionReadCheckCovered, DictAsObj, DictRefKeys, FrozenDict, ObjAsDict, RefIdEq
from returnn.compat.util.entity import Entity
from returnn.compat.util.exceptions import OptionalNotImplementedError, traceback_clear_frames, try_and_ignore_exception
from returnn.compat.util.fwd_compat import fwd_compatibility_rng, get_fwd_compat_kwargs
from returnn.compat.util.hdf5 import hdf5_dimension, hdf5_group, hdf5_shape, hdf5_strings
from returnn.compat.util.numpy_helpers import (
    class_idx_seq_to_1_of_k,
    inplace_increment,
    load_txt_vector,
    random_orthogonal,
    slice_pad_zeros,
    softmax,
)
from returnn.compat.util.pickle_file import (
    deserialize_object,
    read_bytes_to_new_buffer,
    read_pickled_object,
    serialize_object,
    write_pickled_object,
)
from returnn.compat.util.pretty_print import pretty_print, set_pretty_print_as_bytes, set_pretty_print_default_limit
from returnn.compat.util.recursion_guard import InfiniteRecursionDetected, guard_infinite_recursion
from returnn.compat.util.sequences import (
    binary_search_any,
    dict_joined,
    dict_zip,
    ensure_list_of_type,
    find_ranges,
    prod,
    sorted_values_from_dict,
    uniq,
    uniq_generic,
)
from returnn.compat.util.text import (
    PY3,
    as_str,
    camel_case_to_snake_case,
    escape_c_str,
    py2_utf8_str_to_unicode,
    str_is_number,
    unicode_to_str,
)
from returnn.log import log
from returnn.util.backend_engine import BackendEngine
from returnn.util.behavior_version import BehaviorVersion
from returnn.util.files.cache_manager import cf
from returnn.util.files.checkpoint_names import get_checkpoint_filepattern, model_epoch_from_filename
from returnn.util.files.file_lock import LockFile
from returnn.util.files.folders import (
    get_cache_dir,
    get_hostname,
    get_login_username,
    get_temp_dir,
    maybe_make_dirs,
    touch_file,
)
from returnn.util.files.json_text import json_remove_comments, load_json
from returnn.util.native_code_compiler import NativeCodeCompiler
from returnn.util.not_specified import NotSpecified
from returnn.util.numbers.numbers_dict import NumbersDict
from returnn.util.numbers.stats import Stats
from returnn.util.onnx_export import get_global_inf_value, is_onnx_export_global
from returnn.util.python.introspect import (
    attr_chain,
    collect_class_init_kwargs,
    collect_mandatory_class_init_kwargs,
    getargspec,
    help_on_type_error_wrong_args,
    next_type_attrib_in_mro_chain,
    obj_diff_list,
    obj_diff_str,
    simple_obj_repr,
    try_get_caller_name,
    try_get_stack_frame,
    try_run,
    type_attrib_mro_chain,
)
from returnn.util.python.nested import deep_update_dict_values, deepcopy, is_namedtuple, make_hashable, make_seq_of_type
from returnn.util.system.env import (
    TheanoFlags,
    cleanup_env_var_path,
    eval_shell_env,
    eval_shell_str,
    expand_env_vars,
    override_env_var,
)
from returnn.util.system.gpu import get_gpu_names, get_num_gpu_devices, have_gpu
from returnn.util.system.machine import (
    available_physical_memory_in_bytes,
    default_cache_size_in_gbytes,
    get_cpu_model_name,
    get_number_available_cpus,
    guess_requested_max_num_threads,
    is_64bit_platform,
    is_running_on_cluster,
    read_sge_num_procs,
    slurm_time_left_sec,
)
from returnn.util.system.py_exec import custom_exec
from returnn.util.system.terminal import confirm, is_tty, progress_bar, progress_bar_with_time, terminal_size
from returnn.util.system.threads import (
    AsyncThreadRun,
    init_thread_join_hack,
    interrupt_main,
    is_quitting,
    start_daemon_thread,
    wrap_async_func,
)
from returnn.util.system.version import (
    describe_returnn_version,
    describe_tensorflow_version,
    describe_torch_version,
    get_tensorflow_version_tuple,
    git_commit_date,
    git_commit_rev,
    git_describe_head_version,
    git_is_dirty,
    returnn_root_dir,
)
from returnn.util.texts.better_repr import better_repr
from returnn.util.texts.bleu import compute_bleu
from returnn.util.texts.bool_text import to_bool
from returnn.util.texts.human_readable import hms, hms_fraction, human_bytes_size, human_size
from returnn.util.texts.orthography import parse_orthography, parse_orthography_into_symbols

__all__ = [
    "PY3",
    "AsyncThreadRun",
    "BackendEngine",
    "BehaviorVersion",
    "CollectionReadCheckCovered",
    "DictAsObj",
    "DictRefKeys",
    "Entity",
    "FrozenDict",
    "InfiniteRecursionDetected",
    "LockFile",
    "NativeCodeCompiler",
    "NotSpecified",
    "NumbersDict",
    "ObjAsDict",
    "OptionalNotImplementedError",
    "RefIdEq",
    "ReportImportedDevModules",
    "Stats",
    "TheanoFlags",
    "as_str",
    "attr_chain",
    "auto_prefix_os_exec_prefix_ubuntu",
    "available_physical_memory_in_bytes",
    "betterRepr",
    "better_repr",
    "binary_search_any",
    "camel_case_to_snake_case",
    "cf",
    "class_idx_seq_to_1_of_k",
    "cleanup_env_var_path",
    "close_all_fds_except",
    "cmd",
    "collect_class_init_kwargs",
    "collect_mandatory_class_init_kwargs",
    "collect_proc_maps_exec_files",
    "compute_bleu",
    "confirm",
    "custom_exec",
    "deep_update_dict_values",
    "deepcopy",
    "default_cache_size_in_gbytes",
    "describe_returnn_version",
    "describe_tensorflow_version",
    "describe_torch_version",
    "deserialize_object",
    "dict_joined",
    "dict_zip",
    "dummy_numpy_gemm_call",
    "ensure_list_of_type",
    "escape_c_str",
    "eval_shell_env",
    "eval_shell_str",
    "expand_env_vars",
    "find_lib",
    "find_libcudart_from_runtime",
    "find_ranges",
    "find_sgemm_libs_from_runtime",
    "find_sym_in_exec",
    "fwd_compatibility_rng",
    "generic_import_module",
    "get_cache_dir",
    "get_checkpoint_filepattern",
    "get_cpu_model_name",
    "get_fwd_compat_kwargs",
    "get_global_inf_value",
    "get_gpu_names",
    "get_hostname",
    "get_ld_paths",
    "get_login_username",
    "get_lsb_release",
    "get_model_filename_postfix",
    "get_num_gpu_devices",
    "get_number_available_cpus",
    "get_patch_atfork_lib",
    "get_temp_dir",
    "get_tensorflow_version_tuple",
    "get_ubuntu_major_version",
    "get_utc_start_time_filename_part",
    "getargspec",
    "git_commit_date",
    "git_commit_rev",
    "git_describe_head_version",
    "git_is_dirty",
    "guard_infinite_recursion",
    "guess_requested_max_num_threads",
    "have_gpu",
    "hdf5_dimension",
    "hdf5_group",
    "hdf5_shape",
    "hdf5_strings",
    "help_on_type_error_wrong_args",
    "hms",
    "hms_fraction",
    "human_bytes_size",
    "human_size",
    "init_thread_join_hack",
    "inplace_increment",
    "input",
    "interrupt_main",
    "is_64bit_platform",
    "is_namedtuple",
    "is_onnx_export_global",
    "is_quitting",
    "is_running_on_cluster",
    "is_tty",
    "is_valid_fd",
    "json_remove_comments",
    "load_json",
    "load_txt_vector",
    "log",
    "log_runtime_info_to_dir",
    "long",
    "make_dll_name",
    "make_hashable",
    "make_seq_of_type",
    "maybe_make_dirs",
    "maybe_restart_returnn_with_atfork_patch",
    "model_epoch_from_filename",
    "monkeyfix_glib",
    "monkeypatch_audioread",
    "next_type_attrib_in_mro_chain",
    "obj_diff_list",
    "obj_diff_str",
    "override_env_var",
    "overwrite_os_exec",
    "parse_ld_conf_file",
    "parse_orthography",
    "parse_orthography_into_symbols",
    "pip_check_is_installed",
    "pip_install",
    "pretty_print",
    "prod",
    "progress_bar",
    "progress_bar_with_time",
    "py2_utf8_str_to_unicode",
    "random_orthogonal",
    "read_bytes_to_new_buffer",
    "read_pickled_object",
    "read_sge_num_procs",
    "restart_returnn",
    "returnn_root_dir",
    "serialize_object",
    "set_pretty_print_as_bytes",
    "set_pretty_print_default_limit",
    "should_write_to_disk",
    "simple_obj_repr",
    "slice_pad_zeros",
    "slurm_time_left_sec",
    "softmax",
    "sorted_values_from_dict",
    "start_daemon_thread",
    "start_time",
    "str_is_number",
    "sys_cmd_out_lines",
    "sys_exec_out",
    "sys_exec_ret_code",
    "terminal_size",
    "to_bool",
    "touch_file",
    "traceback_clear_frames",
    "try_and_ignore_exception",
    "try_get_caller_name",
    "try_get_stack_frame",
    "try_run",
    "type_attrib_mro_chain",
    "unicode",
    "unicode_to_str",
    "uniq",
    "uniq_generic",
    "validate_broadcast_all_sources",
    "which",
    "which_pip",
    "wrap_async_func",
    "write_pickled_object",
]

# Names of Python 2, names in camel case, and a shorter one, which old configs import.
cmd = sys_cmd_out_lines
input = input
long = int
unicode = str
betterRepr = better_repr
