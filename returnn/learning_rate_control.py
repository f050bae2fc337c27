"""Learning rate control under its documented path, see `returnn.engine.learning_rate_control`."""

from returnn.engine.learning_rate_control import (
    ConstantLearningRate,
    LearningRateControl,
    NewbobAbs,
    NewbobMultiEpoch,
    NewbobRelative,
    demo,
    learning_rate_control_type,
    load_learning_rate_control_from_config,
)
from returnn.engine.learning_rate_file import EpochData

__all__ = [
    "ConstantLearningRate",
    "EpochData",
    "LearningRateControl",
    "NewbobAbs",
    "NewbobMultiEpoch",
    "NewbobRelative",
    "demo",
    "learning_rate_control_type",
    "load_learning_rate_control_from_config",
]

if __name__ == "__main__":
    demo()
