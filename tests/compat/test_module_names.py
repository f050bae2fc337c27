import importlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from returnn.compat.module_names import OLD_MODULE_NAMES, install_old_top_level_modules
from returnn.config import Config


@pytest.fixture
def forget_modules():
    """Modules that the test imports under old names."""
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.removeprefix("returnn.").partition(".")[0] in OLD_MODULE_NAMES:
            del sys.modules[name]


@pytest.mark.usefixtures("forget_modules")
def test_old_names_are_the_modules_of_today():
    install_old_top_level_modules()
    module = importlib.import_module("returnn.config")
    spec = module.__spec__
    assert importlib.import_module("returnn.Config") is module
    assert importlib.import_module("Config") is module
    assert importlib.import_module("Config.files") is importlib.import_module("returnn.config.files")
    assert module.__spec__ is spec
    assert module.__name__ == "returnn.config"


def test_scripts_can_import_old_names(tmp_path):
    (tmp_path / "Pretrain.py").write_text("mine = True\n", encoding="utf8")
    root = Path(__file__).resolve().parent.parent.parent
    for first in ("import returnn", "import rnn"):  # nothing else ran before
        code = (
            f"{first}; import TFUtil, Pretrain; from TFEngine import Engine; assert TFUtil.where_bc and Pretrain.mine"
        )
        env = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{root}"}
        subprocess.run([sys.executable, "-c", code], check=True, env=env)


@pytest.mark.usefixtures("forget_modules")
def test_configs_can_import_old_names(load_text):
    config = load_text("#!rnn.py\nfrom Util import BehaviorVersion\nfrom returnn.Config import Config as C\n")
    assert config.typed_dict["C"] is Config


@pytest.mark.usefixtures("forget_modules")
def test_own_modules_of_the_user_come_first(tmp_path, monkeypatch, load_text):
    (tmp_path / "Stats.py").write_text("", encoding="utf8")
    (tmp_path / "LmDataset.py").write_text("mine = True\n", encoding="utf8")
    monkeypatch.syspath_prepend(tmp_path)
    assert load_text("#!rnn.py\nimport LmDataset\n").typed_dict["LmDataset"].mine


def test_other_modules_are_still_missing():
    install_old_top_level_modules()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("TFUtils")
    assert "TFUtil" in OLD_MODULE_NAMES


@pytest.mark.parametrize(("name", "reason"), [
    ("EngineUtil", "it belonged to Theano, which is not used here; 'returnn.tf.engine.Engine' runs the tasks"),
    ("ActivationFunctions", "returnn.tf.util.basic has 'get_activation_function'"),
    ("returnn.TFNetworkNeuralTransducer", "a 'rec' with 'masked_computation' and 'unmask'"),
    ("returnn.torch.data.returnn_dataset_wrapper", "batches are as 'batch_size', 'max_seqs', .* say"),
    ("returnn.torch.util.debug_inf_nan", "a training stops where loss or gradients are not finite"),
])  # fmt: skip
def test_modules_that_nobody_has_any_more_say_so(name, reason):
    install_old_top_level_modules()
    with pytest.raises(ModuleNotFoundError, match=f"there is no module '{name}': .*{reason}"):
        importlib.import_module(name)


def test_names_that_a_module_has_not_any_more_say_so(load_text):
    module = importlib.import_module("returnn.torch.data.pipeline")
    text = "#!rnn.py\nfrom returnn.torch.data.pipeline import ChunkingIterDataPipe\n"
    with pytest.raises(Exception, match=r"no 'ChunkingIterDataPipe' in returnn.torch.data.pipeline: .*'chunking'"):
        load_text(text)
    assert not hasattr(module, "ChunkingIter")
    assert module.WorkerFeeder


def test_old_scripts_import_rnn():
    root = Path(__file__).resolve().parent.parent.parent
    subprocess.run([sys.executable, "-c", OLD_SCRIPT, root], check=True)


@pytest.mark.parametrize("name", sorted(OLD_MODULE_NAMES))
def test_there_is_a_module_behind_each_old_name(name):
    assert importlib.util.find_spec(OLD_MODULE_NAMES[name]) is not None


OLD_SCRIPT = """
import signal
import sys
before = signal.getsignal(signal.SIGINT)
sys.path.insert(0, sys.argv[1])
import rnn
from rnn import init_config
import returnn.__main__
assert rnn is returnn.__main__
init_config(default_config={"log_verbosity": 1})
rnn.init_log()
assert rnn.config.int("log_verbosity", 0) == 1
assert rnn.engine is None
assert signal.getsignal(signal.SIGINT) is before  # it is only for who runs it
"""
IMPORTS = """
from Pretrain import WrapEpochValue, pretrainFromConfig
from TFUtil import where_bc, Data, DimensionTag, OpCodeCompiler, nd_indices, tile_transposed, get_shape, safe_log
from TFUtil import create_random_warp_flow_2d, dense_image_warp, dropout, dot, get_initializer, matrix_triangular
from TFUtil import compute_sampled_logits, flatten_with_seq_len_mask, get_rnnt_linear_aligned_output, to_int32_64
from TFNetwork import CannotHandleUndefinedSourcesException, TFNetwork, ExternData
from TFNetworkLayer import LayerBase, _ConcatInputLayer, auto_register_layer_classes, register_layer_class
from TFNetworkLayer import SelectSearchSourcesLayer, VariableLayer
from TFCompat import v1 as tf_v1
from Util import cmd
from GeneratingDataset import OggZipDataset, SentencePieces
from Util import cleanup_env_var_path, PY3, py2_utf8_str_to_unicode, cf, betterRepr, load_txt_vector
from LmDataset import Lexicon
import TFHorovod
from returnn.TFEngine import Runner, get_global_engine
from returnn.Config import get_global_config
from returnn.Dataset import init_dataset
from returnn.GeneratingDataset import Vocabulary
from returnn.TFNetworkLayer import HDFDumpLayer
from returnn.extern.HawkAaronWarpTransducer import rnnt_loss
from returnn.extern.WarpRna import rna_loss
from returnn.tf.compat import v1
from returnn.tf.util.basic import expand_multiple_dims, filter_ended_scores, get_shared_vocab, safe_exp
from returnn.tf.util.data import SpatialDim, FeatureDim, batch_dim, single_step_dim, ImplicitDynSizeDim, BatchInfo
from returnn.tf.layers.base import InternalLayer
from returnn.tf.layers.basic import ConvLayer, LinearLayer, SubnetworkLayer
from returnn.util.basic import NotSpecified, NumbersDict, hms, get_login_username, init_thread_join_hack
from returnn.util.pprint import pprint
from returnn.util import BehaviorVersion
from returnn.torch.context import RunCtx, get_run_ctx
from returnn.torch.data.extern_data import extern_data_template_from_config_opts, raw_dict_to_extern_data
from returnn.torch.distributed import get_ctx
from returnn.torch.frontend.bridge import rf_module_to_pt_module, wrapped_module_to_rf_module
from returnn.torch.util.gradient_checkpoint import gradient_checkpoint_scope
from returnn.torch.util.scaled_gradient import scaled_gradient, scaled_gradient_ext
"""


@pytest.mark.parametrize("line", IMPORTS.strip().splitlines())
def test_what_real_configs_import(line, load_text):
    names = line.partition(" import ")[2].split(" as ")[-1].split(", ") if "from" in line else [line.split()[-1]]
    assert set(names) <= set(load_text(f"#!rnn.py\n{line}\n").typed_dict)


@pytest.fixture
def load_text(tmp_path):
    def load(text):
        path = tmp_path / "my.config"
        path.write_text(text, encoding="utf8")
        config = Config()
        config.load_file(path)
        return config

    return load
