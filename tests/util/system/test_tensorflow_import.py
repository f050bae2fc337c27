"""What `import tensorflow` writes to stderr, and that it waits for no Keras."""

import os
import subprocess
import sys

import pytest

from returnn.util.system.tensorflow_import import noise_of_import

NOISE = [
    "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR",
    "I0000 00:00:1795378526.325547   17648 port.cc:153] oneDNN custom operations are on.",
    "To enable the following instructions: AVX2 FMA, in other operations, rebuild TensorFlow with the flags.",
    "2026-11-22 20:00:00.123456: I tensorflow/core/util/port.cc:153] oneDNN custom operations are on.",
    "E0000 00:00:1795.1   17 cuda_dnn.cc:8310] Unable to register cuDNN factory: one for plugin cuDNN is there.",
    "W0000 00:00:1795.1   17 computation_placer.cc:177] computation placer already registered.",
]
WORDS = [
    "E0000 00:00:1795378526.325547   17648 some.cc:153] The disk is broken.",
    "2026-11-22 20:00:00.123456: F tensorflow/core/lib/monitoring.cc:42] Your CPU has no AVX.",
    "Fatal Python error: Illegal instruction",
]


def test_only_noise_is_left_out():
    code = (
        "import os, sys\nfrom returnn.util.system.tensorflow_import import noise_of_import, stderr_without\n"
        f"with stderr_without(noise_of_import()):\n    os.write(2, {chr(10).join([*NOISE, *WORDS, ''])!r}.encode())\n"
        "    print('from Python', file=sys.stderr)\nprint('afterwards', file=sys.stderr)"
    )
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True)
    assert result.stderr.splitlines() == [*WORDS, "from Python", "afterwards"]


def test_warnings_are_shown_if_they_are_wanted(monkeypatch):
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "1")
    assert not any("W" in pattern.partition("]")[0] for pattern in noise_of_import() if pattern.startswith("^["))
    for level in ("0", "what"):
        monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", level)
        assert noise_of_import() == []
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL")
    assert noise_of_import() == []


@pytest.mark.parametrize("end", ["raise ValueError('broken')", "os.abort()"])
def test_words_before_a_crash_are_shown(end):
    code = (
        "import os\nfrom returnn.util.system.tensorflow_import import stderr_without\n"
        f"with stderr_without(['^noise']):\n    os.write(2, b'noise\\nlast words\\n')\n    {end}\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode != 0
    assert "last words" in result.stderr
    assert "noise\n" not in result.stderr


def test_tensorflow_is_imported_quietly():
    code = (
        "import returnn.tf, tensorflow as tf\n"
        "print(type(tf.__spec__.loader).__name__, type(tf.__loader__).__name__, tf.constant(1).numpy())"
    )
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": ""}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True)
    assert (result.stdout, result.stderr) == ("SourceFileLoader SourceFileLoader 1\n", "")


def test_keras_is_imported_when_it_is_used():
    code = (
        "import os, sys\nfrom returnn.util.system.tensorflow_import import make_tensorflow_import_quick\n"
        "make_tensorflow_import_quick()\nimport tensorflow as tf\n"
        "assert 'keras' not in sys.modules and 'TF_USE_LEGACY_KERAS' not in os.environ\n"
        "import returnn.tf.engine\nassert 'keras' not in sys.modules\n"
        "from tensorflow.keras import layers\n"
        "print(tf.keras.layers.Dense(3).units, tf.keras.__version__, layers.Dense(4).units, tf.losses.MeanSquaredError)"
    )
    environment = {name: value for name, value in os.environ.items() if name != "TF_USE_LEGACY_KERAS"}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("3 3."), result.stdout
    assert " 4 <class 'keras." in result.stdout
