"""`SharedParameters`: the parameters of a session, which several workers keep equal."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf

from returnn.tf.distributed.workers import Workers


class SharedParameters:
    """The variables of a graph, in the session of this worker. All workers call each method, in the same order."""

    def __init__(
        self,
        workers: Workers,
        session: tf.compat.v1.Session,
        *,
        trained: Callable[[], Sequence[tf.Variable]],
        saved: Callable[[], Sequence[tf.Variable]],
    ) -> None:
        """
        :param workers: all
        :param session: of this worker
        :param trained: which variables are updated by gradients
        :param saved: which ones a model file has, apart from the state of the optimizer
        """
        self._workers = workers
        self._session = session
        self._trained = trained
        self._saved = saved
        self._last_sync_s = time.monotonic()
        self._means: dict[str, tf.Operation] = {}

    def begin(self, variables: Mapping[str, tf.Variable]) -> None:
        """
        All workers get the values of the first one.

        :param variables: all of the graph, by name
        :raises UserError: if a worker does not answer
        """
        self._workers.broadcast(self._session, variables)
        self._last_sync_s = time.monotonic()

    def after_step(self, *, num_steps: int) -> None:
        """
        With the reduce type "param", all workers get the mean of their parameters from time to time.

        :param num_steps: so far; the same on all workers
        :raises UserError: if a worker does not answer
        """
        if self._workers.options.reduce_type != "param":
            return
        if not self._workers.is_time_to_sync(num_steps, self._last_sync_s):
            return
        self._take_mean("trained", self._trained())
        self._last_sync_s = time.monotonic()

    def end_epoch(self) -> None:
        """
        At the end of an epoch, all workers have the same model: also running statistics, which each one has of its own
        data.

        :raises UserError: if a worker does not answer
        """
        of_all = self._workers.options.reduce_type == "grad"  # what is trained is the same already
        trained = {var.ref() for var in self._trained()} if of_all else set()
        other = [var for var in self._saved() if var.dtype.is_floating and var.ref() not in trained]
        if other:
            self._take_mean("saved", other)

    def _take_mean(self, key: str, variables: Sequence[tf.Variable]) -> None:
        if key not in self._means:
            with self._session.graph.as_default():
                self._means[key] = self._workers.mean_op(variables)
        try:
            self._session.run(self._means[key])
        except tf.errors.OpError as exc:
            raise self._workers.error(exc) from exc
