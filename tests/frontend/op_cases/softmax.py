"""Softmax and losses by frame."""

from __future__ import annotations

import returnn.frontend as rf
from returnn.tensor import Tensor
from tests.frontend.op_case import Inputs, op_case


@op_case("softmax", "log_softmax")
def softmax_over_features(inputs: Inputs) -> list[Tensor]:
    feature = inputs.static("feature")
    x = inputs.floats([*inputs.dims(), feature], feature_dim=feature)
    return [rf.softmax(x, axis=feature), rf.log_softmax(x, axis=feature)]


@op_case("softmax", "log_softmax")
def softmax_over_frames(inputs: Inputs) -> list[Tensor]:
    time = inputs.dynamic()
    x = inputs.floats([inputs.batch, time, inputs.static("feature")])
    valid = time.get_mask()  # the logarithm is minus infinity elsewhere
    return [rf.softmax(x, axis=time), rf.where(valid, rf.log_softmax(x, axis=time), 0.0)]


@op_case("softmax", "log_softmax")
def softmax_of_many_dims(inputs: Inputs) -> list[Tensor]:
    dims = [inputs.static(name) for name in ("a", "b", "c", "d", "e")]
    x = inputs.floats([inputs.batch, *dims])
    return [rf.softmax(x, axis=dims[-1]), rf.softmax(x, axis=dims[1]), rf.log_softmax(x, axis=dims[-1])]


@op_case("softmax", "log_softmax")
def softmax_where_the_lengths_differ_along_another_dim(inputs: Inputs) -> list[Tensor]:
    time = inputs.dynamic()
    x = inputs.floats([time, inputs.static("axis")])
    return [rf.softmax(x, axis=time), rf.where(time.get_mask(), rf.log_softmax(x, axis=time), 0.0)]


@op_case("softmax", "log_softmax", per_sequence=False)
def softmax_without_mask(inputs: Inputs) -> list[Tensor]:
    axis = inputs.static("axis")
    x = inputs.floats([axis, inputs.batch])
    return [rf.softmax(x, axis=axis, use_mask=False), rf.log_softmax(x, axis=axis, use_mask=False)]


@op_case("safe_log")
def safe_log(inputs: Inputs) -> list[Tensor]:
    feature = inputs.static("feature")
    probabilities = inputs.floats([inputs.batch, feature], low=0.1, high=1.0)
    logits = inputs.floats([inputs.batch, inputs.dynamic(), feature])
    return [rf.safe_log(probabilities), rf.safe_log(rf.softmax(logits, axis=feature)), rf.safe_log(probabilities * 0.0)]


@op_case("softmax_cross_entropy_with_logits")
def cross_entropy_of_labels(inputs: Inputs) -> list[Tensor]:
    time, classes = inputs.dynamic(), inputs.static("feature")
    logits = inputs.floats([inputs.batch, time, classes], feature_dim=classes)
    targets = inputs.sparse([inputs.batch, time], classes)
    log_probs = rf.log_softmax(logits, axis=classes)
    return [
        rf.cross_entropy(estimated=logits, target=targets, axis=classes, estimated_type="logits"),
        rf.cross_entropy(estimated=log_probs, target=targets, axis=classes, estimated_type="log-probs"),
        rf.cross_entropy(estimated=rf.exp(log_probs), target=targets, axis=classes, estimated_type="probs"),
    ]


@op_case("softmax_cross_entropy_with_logits", nan_gradients=False)
def cross_entropy_of_distributions(inputs: Inputs) -> list[Tensor]:
    time, classes = inputs.dynamic(), inputs.static("feature")
    logits = inputs.floats([inputs.batch, time, classes], feature_dim=classes)
    targets = rf.softmax(inputs.floats([time, inputs.batch, classes]), axis=classes)
    return [
        rf.cross_entropy(estimated=logits, target=targets, axis=classes, estimated_type="logits"),
        rf.cross_entropy(
            estimated=rf.log_softmax(logits, axis=classes), target=targets, axis=classes, estimated_type="log-probs"
        ),
    ]
