"""What outputs of `forward_step` become."""

from __future__ import annotations

import numpy

import returnn.frontend as rf
from returnn.engine.frontend.outputs import HypothesesOutput
from returnn.tensor import Dim, Tensor, TensorDict

LABELS, BEAM, FRAMES = Dim(5, name="labels"), Dim(3, name="beam"), Dim(2, name="frames")


def test_places_of_the_beam_without_hypothesis_are_left_out() -> None:
    with rf.backend_ctx("numpy"):
        labels = numpy.array([[1, 2], [3, 4], [0, 0]], "int32")
        outputs = TensorDict(
            {
                "output": Tensor("output", [BEAM, FRAMES], "int32", sparse_dim=LABELS, raw_tensor=labels),
                "scores": Tensor("scores", [BEAM], "float32", raw_tensor=numpy.array([-2.0, -1.0, -1e30], "float32")),
            }
        )
        found = HypothesesOutput("output")
        found.process_seq(seq_tag="seq", outputs=outputs)
        assert found.results["seq"] == [(-1.0, "3 4"), (-2.0, "1 2")]
        outputs["scores"].raw_tensor = numpy.full(3, -1e30, "float32")
        found.process_seq(seq_tag="none", outputs=outputs)
        assert len(found.results["none"]) == 1
