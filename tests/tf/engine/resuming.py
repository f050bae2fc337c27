"""A training that is killed inside of epochs, within this process, and one that is not."""

import os

from returnn.engine.learning_rate_file import read_learning_rate_file
from returnn.tf.engine.engine import Engine
from tests.tf.engine.small_config import assert_same, config, parameters


class Killed(BaseException):
    """Nothing handles it, as with SIGKILL."""


def run(folder, options, kill_after=None):
    """
    :param folder: of the models
    :param options: of the config
    :param kill_after: so many steps of this run; None: it ends by itself
    :return: the epoch and the number of steps in it where it started
    """
    folder.mkdir(exist_ok=True)
    engine = Engine(config(folder, **options))
    steps = []
    training = engine.training
    after_step = training._after_step

    def killing(data_pass, agreed):
        after_step(data_pass, agreed)
        engine.model_files.unfinished.wait()  # steps are so short here that the next one would be saved instead
        steps.append((data_pass.session.epoch, data_pass.num_steps))
        if len(steps) == kill_after:
            raise Killed

    training._after_step = killing
    try:
        engine.init_train_from_config()
        engine.train()
        assert kill_after is None, f"has only {len(steps)} steps"
    except Killed:
        pass
    finally:
        engine.finalize()
    return steps[0]


def scores(folder):
    """:return: learning rates and scores of all epochs, without durations; of the file in the folder"""
    (name,) = [name for name in os.listdir(folder) if "learning_rates" in name]
    data = read_learning_rate_file(folder / name)
    return {epoch: (entry.learning_rate, entry.error) for epoch, entry in data.items()}


def models(folder):
    return sorted(name for name in os.listdir(folder) if name.endswith(".index"))


def check_killed_training_ends_as_undisturbed_one(folder, options, *, kill_after=(3, 3), starts=None):
    """
    :param folder: for the models
    :param options: of the config; several epochs of more than 3 steps each
    :param kill_after: number of steps of each run but the last one
    :param starts: epochs and steps where the runs after the first one have to start; default: each behind a step
    """
    one, other = folder / "one", folder / "other"
    # Steps 2, 4, ... are saved, so a kill after an odd one costs a step.
    options = {"num_epochs": 2, "save_interval_steps": 2, "save_interval_s": 0, "max_seqs": 4, **options}
    files = [{"learning_rate_file": str(folder / "learning_rates")} for folder in (one, other)]
    run(one, {**files[0], **options, "save_interval_steps": 0})
    found = [run(other, {**files[1], **options}, number) for number in (*kill_after, None)]
    if starts is None:
        assert all(step > 1 for _, step in found[1:]), found
    else:
        assert found[1:] == starts
    assert models(one) == models(other)
    assert scores(one) == scores(other)
    last = models(one)[-1].removesuffix(".index")
    assert_same(parameters(one / last), parameters(other / last))
