"""
Trains small models, one after the other, as one of several workers or alone, and writes what came out.

    python -m tests.tf.distributed.worker_program OUTPUT_FOLDER
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy

import returnn.frontend as rf
from returnn.config import Config, set_global_config
from returnn.datasets.core.registry import init_dataset
from returnn.log import log
from returnn.tf import engine_rf
from returnn.tf.engine import Engine
from returnn.util.backend_engine import BackendEngine
from returnn.util.behavior_version import BehaviorVersion
from tests.engine.frontend import small_model

SEQS = 24
WORKERS = 2


def network(hidden=(), **loss_options):
    hidden = dict(hidden)
    return {
        "embed": {"class": "linear", "activation": None, "n_out": 5, "from": "data", "with_bias": False},
        "hidden": {"class": "linear", "activation": "tanh", "n_out": 6, "from": "embed", "L2": 0.01, **hidden},
        "output": {"class": "softmax", "loss": "ce", "from": "hidden", "loss_opts": loss_options},
    }


ADAM = {"optimizer": {"class": "adam"}, "learning_rate": 0.02}
SGD = {"optimizer": {"class": "sgd"}, "learning_rate": 0.01}
# Options of all processes; number of sequences in a batch of a worker; whether it is one step of all batches together.
CASES = {
    "sum over frames": ({**SGD, "network": network()}, 2, True),
    "mean over frames": ({**ADAM, "network": network(use_normalized_loss=True)}, 2, True),
    "clipped and accumulated": (
        {**ADAM, "network": network(), "gradient_clip_global_norm": 0.5, "accum_grad_multiple_step": 2},
        2,
        True,
    ),
    "running statistics": ({**SGD, "network": network(hidden={"batch_norm": {"masked_time": True}})}, 2, False),
    "uneven data": ({**SGD, "network": network(), "num_seqs": SEQS + 2}, 2, False),
    "mean of gradients": (
        {**SGD, "network": network(), "distributed_tf": {"combine": "mean"}},
        2,
        False,
    ),
    "parameters now and then": (
        {**SGD, "network": network(), "distributed_tf": {"reduce_type": "param", "param_sync_step": 3}},
        2,
        False,
    ),
    "horovod, each with another order": (
        {**SGD, "network": network(), "use_horovod": True, "horovod_dataset_distribution": "random_seed_offset"},
        2,
        False,
    ),
}


def model_in_python(*, normalized=False, **options):
    """:return: options of a model of the frontend, with constraints"""

    class Model(small_model.Model):
        def __init__(self):
            super().__init__(dropout=0.0)
            self.output.weight.weight_decay = 0.01

    def train_step(*, model, extern_data, **_kwargs):
        logits = model(extern_data["data"], spatial_dim=small_model.time_dim)
        targets, classes = extern_data["classes"], small_model.classes_dim
        loss = rf.cross_entropy(target=targets, estimated=logits, estimated_type="logits", axis=classes)
        rf.get_run_ctx().mark_as_loss(loss, "ce", use_normalized_loss=normalized)

    return {
        "backend": "tensorflow", "extern_data": small_model.EXTERN_DATA, "get_model": lambda **_: Model(),
        "train_step": train_step, **options,
    }  # fmt: skip


CASES.update(
    {
        "model in Python, sum": (model_in_python(**SGD), 2, True),
        "model in Python, mean over frames, accumulated": (
            model_in_python(normalized=True, **ADAM, accum_grad_multiple_step=2),
            2,
            True,
        ),
        "model in Python, parameters now and then": (
            model_in_python(**SGD, distributed_tf={"reduce_type": "param", "param_sync_step": 3}),
            2,
            False,
        ),
    }
)


def train(case: str, *, is_alone: bool) -> dict:
    options, max_seqs, _ = CASES[case]
    options = dict(options)
    num_seqs = options.pop("num_seqs", SEQS)
    if is_alone:
        for name in ("use_horovod", "horovod_dataset_distribution", "distributed_tf"):
            options.pop(name, None)
    elif "use_horovod" not in options:
        options["distributed_tf"] = {"timeout_s": 300, **options.get("distributed_tf", {})}
    config = Config(
        {
            "task": "train",
            **({} if "get_model" in options else {"num_inputs": 9, "num_outputs": 2}),
            "batch_size": 100_000,
            "max_seqs": max_seqs * (WORKERS if is_alone else 1),
            "num_epochs": 2,
            "log_verbosity": [0],
            **options,
        }
    )
    set_global_config(config)
    BackendEngine.select_engine(config=config)
    log.init_by_config(config)
    data = {"class": "Task12AXDataset", "num_seqs": num_seqs, "fixed_random_seed": 1}
    engine = engine_rf.Engine(config) if "get_model" in options else Engine(config)
    engine.init_train_from_config(
        config, train_data=init_dataset(data), dev_data=init_dataset({**data, "num_seqs": 7, "fixed_random_seed": 2})
    )
    engine.train()
    values = (engine.trained_model if "get_model" in options else engine.session).snapshot().values
    scores = {epoch: engine.learning_rate_control.get_epoch_error_dict(epoch) for epoch in (1, 2)}
    engine.finalize()
    return {
        "params": {name: numpy.asarray(value).tolist() for name, value in values.items()},
        "scores": {
            epoch: {key: value for key, value in of_epoch.items() if not key.startswith(":")}
            for epoch, of_epoch in scores.items()
        },
    }


def main(folder: Path, rank: int, *, is_alone: bool) -> None:
    BehaviorVersion.set(30)
    for case in CASES:
        result = train(case, is_alone=is_alone)
        (folder / f"{case}.{rank}.json").write_text(json.dumps(result))


if __name__ == "__main__":
    task = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task")
    main(Path(sys.argv[1]), 0 if task is None else task["index"], is_alone=task is None)
