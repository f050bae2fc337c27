"""Some of the recorded cases in mixed precision: losses to 2 %, nothing that is not finite."""

from __future__ import annotations

from pathlib import Path

import numpy
import pytest

import returnn.frontend as rf
from tests.golden import golden

FOLDER = Path(__file__).parent / "cases"
# Losses with different kinds of layers below. None has a decision, such as an alignment, which a last digit can change.
CASES = [
    "basic/batch_norm_train_masked", "basic/conv1d_train_time_major", "basic/dot_train_masked_reduce",
    "basic/linear_transposed_weights", "basic/ctc_loss_infeasible", "basic/loss_ce_label_smoothing_and_focal",
    "basic/subnetwork", "fuzz/ff_01031", "fuzz/loop_01001", "fuzz/loop_01053", "loss/gradient_layer_penalty",
    "rec/loop_batch_norm_moved_out_old", "found/partial_freeze_and_stop_gradient",
]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", CASES)
def test_recorded_case(name, dtype):
    with numpy.load(FOLDER / f"{name}.npz") as file:
        expected = dict(file)
    path = next(path for path in golden.iter_cases([str(FOLDER)]) if Path(path).stem == Path(name).name)
    with rf.set_amp_policy_ctx(dtype):
        found = golden.run_case(path, given=expected)
    for key, value in found.items():
        if key.startswith(("loss:", "total")):  # processors without bfloat16 also sum up with fewer digits
            numpy.testing.assert_allclose(value, expected[key], rtol=0.02, err_msg=key)
        if key.startswith("grad:"):
            numpy.testing.assert_allclose(value, expected[key], atol=0.1 * numpy.abs(expected[key]).max(), err_msg=key)
