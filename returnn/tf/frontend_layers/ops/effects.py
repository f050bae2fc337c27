"""What is there for what it does, and not for a value: assertions. What has no effect in a net dict says so."""

from __future__ import annotations

import contextlib
from typing import Any

from returnn.frontend._ops.operands import fail
from returnn.log import log
from returnn.tensor import Tensor
from returnn.tf.frontend_layers.layer import Layer
from returnn.tf.frontend_layers.recording import as_recorded, describe, record


class EffectLayers:
    """For their meaning see `returnn.frontend._ops.control_flow.assertion`, `returnn.frontend.gradient`."""

    @classmethod
    def assert_(cls, condition: Tensor[Any], message: str, *, stop: bool = True) -> None:
        """By a layer of class "eval", which the network checks in each step. :raises DimError: in loops and branches"""
        inside = Layer.inner_control_flow()
        if inside is not None:
            kind = "loop" if inside.is_loop() else "condition"
            raise fail(
                f"assert_: {message!r}: a net dict cannot check this inside of a {kind}.",
                "Collect the values, as rf.scan does, and check them behind it.",
            )
        check = f"tf.raw_ops.Assert(condition=source(0), data=[{message!r}])"
        if not stop:
            text = f"Assertion failed: {message}"
            check = f"tf.cond(source(0), lambda: tf.no_op(), lambda: tf.print({text!r}))"
        options = {
            "class": "eval",
            "from": as_recorded(condition),
            "eval": f"network.register_post_control_dependencies([{check}]) or source(0)",
            "out_type": describe(condition),
            "is_output_layer": True,
        }
        checked = record(condition.copy_template(), options, name="assert")
        checked.raw_tensor.network.marked_outputs.append(checked)

    @staticmethod
    def gradient_checkpoint_scope() -> Any:
        """:return: context: nothing is different inside, as a note in the log says. Results are the same"""
        global _is_told
        if not _is_told:
            print("gradient_checkpoint_scope: has no effect in a net dict: no memory is spared.", file=log.v2)
            _is_told = True
        return contextlib.nullcontext()


_is_told = False
