"""
Trains small models, one after the other, as one of several workers or alone, and writes what came out.

    python -m tests.torch.distributed.worker_program OUTPUT_FOLDER
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

import returnn.frontend as rf
from returnn.config import set_global_config
from returnn.datasets.core.registry import init_dataset
from returnn.log import log
from returnn.tensor import Tensor
from returnn.torch.engine import Engine
from returnn.util.backend_engine import BackendEngine
from returnn.util.behavior_version import BehaviorVersion
from tests.engine.frontend import small_model
from tests.engine.frontend.small_model import classes_dim, feature_dim, time_dim

SEQS = 24
WORKERS = 2


class Model(small_model.Model):
    """With a part that only some sequences need, and running statistics."""

    def __init__(self):
        super().__init__(dropout=0.0)
        self.unused = rf.Linear(feature_dim, classes_dim)
        self.statistics = rf.BatchNorm(feature_dim, use_mask=True)
        self.unused.weight.weight_decay = 0.01


def losses(*, normalized=False, only_some=False, statistics=False):
    def train_step(*, model, extern_data, **_kwargs):
        data: Tensor = extern_data["data"]
        if statistics:
            data = model.statistics(data)
        logits = model(data, spatial_dim=time_dim)
        if only_some and int(data.raw_tensor.shape[1]) % 2:
            logits = logits + model.unused(data)
        loss = rf.cross_entropy(
            target=extern_data["classes"], estimated=logits, estimated_type="logits", axis=classes_dim
        )
        rf.get_run_ctx().mark_as_loss(loss, "ce", use_normalized_loss=normalized)

    return train_step


ADAM = {"optimizer": {"class": "adam"}, "learning_rate": 0.02}
SGD = {"optimizer": {"class": "sgd"}, "learning_rate": 0.01}


def rate_of_part(*, learning_rate: float, epoch_continuous: float, **_kwargs: object) -> float:
    return learning_rate * epoch_continuous


# Options of all processes; whether it is one step of all batches together.
CASES = {
    "sum over frames": ({**SGD, "train_step": losses()}, True),
    "mean over frames": ({**ADAM, "train_step": losses(normalized=True)}, True),
    # which part of the epoch is done differs between the workers, and must not make different steps
    "rates by the part that is done": ({**SGD, "train_step": losses(), "dynamic_learning_rate": rate_of_part}, False),
    "a part that only some need": ({**SGD, "train_step": losses(only_some=True)}, False),
    "clipped and accumulated": (
        {**ADAM, "train_step": losses(), "gradient_clip_global_norm": 0.5, "accum_grad_multiple_step": 4},
        True,
    ),
    "scaled losses": ({**SGD, "train_step": losses(), "grad_scaler": {"init_scale": 1024.0}}, True),
    "running statistics": ({**SGD, "train_step": losses(statistics=True)}, False),
    "uneven data": ({**SGD, "train_step": losses(), "num_seqs": SEQS + 2}, False),
    "mean of gradients": ({**SGD, "train_step": losses(), "torch_distributed": {"combine": "mean"}}, False),
    "parameters now and then": (
        {
            **SGD,
            "train_step": losses(),
            "torch_distributed": {"reduce_type": "param", "param_sync_step": 3, "sync_on_cpu": True},
        },
        False,
    ),
    "each with another order": (
        {**SGD, "train_step": losses(), "torch_distributed": {"dataset_distribution": "random_seed_offset"}},
        False,
    ),
}


AS_ONE_BATCH = {"combine": "batch", "data": "shard"}


def train(case: str, *, is_alone: bool) -> dict:
    options = {"get_model": lambda **_: Model(), "max_seqs": 2, "num_epochs": 2, **CASES[case][0]}
    num_seqs = options.pop("num_seqs", SEQS)
    if is_alone:
        options.pop("torch_distributed", None)
        options["max_seqs"] *= WORKERS
        options["accum_grad_multiple_step"] = options.get("accum_grad_multiple_step", 1)
    else:
        options["torch_distributed"] = {**AS_ONE_BATCH, "timeout_s": 300, **options.get("torch_distributed", {})}
    with tempfile.TemporaryDirectory() as folder:
        config = small_model.config(Path(folder), **options)
        config.set("model", None)
        set_global_config(config)
        BackendEngine.select_engine(config=config)
        data = {"class": "Task12AXDataset", "num_seqs": num_seqs, "fixed_random_seed": 1}
        engine = Engine(config)
        dev_data = init_dataset({**data, "num_seqs": 1, "fixed_random_seed": 2})  # nothing for the second worker
        engine.init_train_from_config(config, train_data=init_dataset(data), dev_data=dev_data)
        engine.train()
    params = {name: value.detach().tolist() for name, value in engine.runner.parameters.items()}
    scores = {epoch: engine.learning_rate_control.get_epoch_error_dict(epoch) for epoch in (1, 2)}
    steps = engine.runner.train_step
    engine.finalize()
    return {
        "params": params,
        "steps": steps,
        "scores": {
            epoch: {key: value for key, value in of_epoch.items() if not key.startswith(":")}
            for epoch, of_epoch in scores.items()
        },
    }


def main(folder: Path, rank: int, *, is_alone: bool) -> None:
    BehaviorVersion.set(30)
    log.initialize(verbosity=[0])
    for case in CASES:
        result = train(case, is_alone=is_alone)
        (folder / f"{case}.{rank}.json").write_text(json.dumps(result))


if __name__ == "__main__":
    task = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task")
    main(Path(sys.argv[1]), 0 if task is None else task["index"], is_alone=task is None)
