"""Pretraining under its documented path, see `returnn.engine.pretrain`."""

from returnn.engine.pretrain import Pretrain, WrapEpochValue, demo, pretrain_from_config

__all__ = ["Pretrain", "WrapEpochValue", "demo", "pretrainFromConfig", "pretrain_from_config"]

pretrainFromConfig = pretrain_from_config  # as old configs import it

if __name__ == "__main__":
    demo()
