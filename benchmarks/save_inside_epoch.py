"""
What a checkpoint inside of an epoch costs: how long the training waits for it, how long the thread writes, and how much
longer the steps take meanwhile. Run as `python -m benchmarks.save_inside_epoch [--size 1024] [--layers 6]`.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time

from returnn.config import Config
from returnn.log import log
from returnn.tf.engine.engine import Engine


def make_config(folder: str, *, size: int, layers: int) -> Config:
    """:return: a training of steps that are all alike"""
    network = {
        f"layer{i}": {
            "class": "linear",
            "activation": "relu",
            "n_out": size,
            "dropout": 0.1,
            "from": f"layer{i - 1}" if i else "data",
        }
        for i in range(layers)
    }
    network["output"] = {"class": "softmax", "from": f"layer{layers - 1}", "loss": "ce", "target": "classes"}
    return Config(
        {
            "train": {"class": "DummyDataset", "input_dim": size, "output_dim": 10, "num_seqs": 100_000, "seq_len": 50},
            "extern_data": {"data": {"dim": size}, "classes": {"dim": 10, "sparse": True}},
            "network": network,
            "max_seqs": 10,
            "batch_size": 10_000,
            "optimizer": {"class": "adam"},
            "model": f"{folder}/net",
            "num_epochs": 1,
        }
    )


class Ended(Exception):
    """The measurement is over."""


class Measurement:
    """Calls itself after each step of the training."""

    def __init__(self, engine: Engine, *, num_saves: int) -> None:
        self.engine = engine
        self.num_saves = num_saves
        self.saves_s: list[float] = []
        self.writes_s: list[float] = []
        self.steps_s: dict[str, list[float]] = {"alone": [], "beside a write": []}
        self._last_s = 0.0
        self._num_steps = 0

    def after_step(self, data_pass: object, agreed: object) -> None:
        """In the place of `Training._after_step`."""
        training, unfinished = self.engine.training, self.engine.model_files.unfinished
        now = time.monotonic()
        self._num_steps += 1
        thread = unfinished._thread
        if self._num_steps > 10:
            key = "beside a write" if thread is not None and thread.is_alive() else "alone"
            self.steps_s[key].append(now - self._last_s)
        if thread is not None and not thread.is_alive():
            unfinished.wait()
            self.writes_s.append(now - self._began_s)
        if self._num_steps > 10 and self._num_steps % 20 == 0 and unfinished._thread is None:
            if len(self.saves_s) == self.num_saves:
                raise Ended
            self._began_s = time.monotonic()
            training._save_unfinished(data_pass)
            self.saves_s.append(time.monotonic() - self._began_s)
        self._last_s = time.monotonic()


def main() -> None:
    """Prints medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--saves", type=int, default=8)
    args = parser.parse_args()
    log.initialize(verbosity=[1])
    with tempfile.TemporaryDirectory() as folder:
        engine = Engine(make_config(folder, size=args.size, layers=args.layers))
        measurement = Measurement(engine, num_saves=args.saves)
        engine.training._after_step = measurement.after_step
        try:
            engine.init_train_from_config()
            num_bytes = sum(value.nbytes for value in engine.session.snapshot().values.values())
            engine.train()
        except Ended:
            pass
        finally:
            engine.finalize()
    steps = {key: 1000 * statistics.median(values) for key, values in measurement.steps_s.items() if values}
    first, *others = (1000 * seconds for seconds in measurement.saves_s)
    print(f"variables: {num_bytes / 1e6:.0f} MB; step: {', '.join(f'{ms:.1f} ms {key}' for key, ms in steps.items())}")
    print(f"the training waits: {first:.1f} ms at the first save, then {statistics.median(others):.1f} ms")
    print(f"the thread writes: {1000 * statistics.median(measurement.writes_s):.0f} ms")


if __name__ == "__main__":
    main()
