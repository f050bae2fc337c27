"""Which engine runs the config: TensorFlow with a net dict, TensorFlow with the frontend, or PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol

from returnn.util.errors import ConfigError, check_known


class _Options(Protocol):
    """The part of a config that is needed here."""

    @property
    def options(self) -> Any:
        """The values of all options."""


class BackendEngine:
    """The engine of this process. It is selected once, when the config is known."""

    TensorFlowNetDict = 1
    TensorFlow = 2
    Torch = 3
    Jax = 4

    selected_engine: ClassVar[int | None] = None
    select_callbacks: ClassVar[list[Callable[[int], None]]] = []  # how higher floors learn of it, e.g. the frontend

    @classmethod
    def select_engine(
        cls,
        *,
        engine: int | None = None,
        default_fallback_engine: int | None = None,
        config: _Options | None = None,
        _select_rf_backend: bool = True,
    ) -> None:
        """
        :param engine: one of the constants of this class
        :param default_fallback_engine: if neither `engine` nor the config says anything
        :param config: options `backend` ("tensorflow-net-dict", "tensorflow", "torch") and `use_tensorflow`
        :param _select_rf_backend: whether `select_callbacks` are called
        :raises ConfigError: if the config asks for one that is not there
        """
        if engine is None and config is not None:
            engine = _engine_of_config(config)
        cls.selected_engine = engine or default_fallback_engine or cls.TensorFlowNetDict
        if _select_rf_backend:
            for callback in cls.select_callbacks:
                callback(cls.selected_engine)

    @classmethod
    def get_selected_engine(cls) -> int:
        """:return: one of the constants of this class"""
        return cls.TensorFlowNetDict if cls.selected_engine is None else cls.selected_engine

    @classmethod
    def describe_selected(cls) -> str:
        """:return: it, as the option of the config, for errors"""
        selected = cls.get_selected_engine()
        names = [name for name, engine in _ENGINES.items() if engine == selected]
        return f"backend = {names[0]!r}" + ", the default" * (selected == cls.TensorFlowNetDict)

    @classmethod
    def is_tensorflow_selected(cls) -> bool:
        """:return: whether it is one of the two with TensorFlow"""
        return cls.get_selected_engine() in (cls.TensorFlowNetDict, cls.TensorFlow)

    @classmethod
    def is_torch_selected(cls) -> bool:
        """:return: whether it is PyTorch"""
        return cls.get_selected_engine() == cls.Torch

    @classmethod
    def is_jax_selected(cls) -> bool:
        """:return: whether it is JAX"""
        return cls.get_selected_engine() == cls.Jax


_ENGINES = {
    "tensorflow-net-dict": BackendEngine.TensorFlowNetDict,
    "tensorflow": BackendEngine.TensorFlow,
    "torch": BackendEngine.Torch,
}


def _engine_of_config(config: _Options) -> int | None:
    backend = config.options.backend
    if backend:
        check_known("backend", backend, _ENGINES, where="option 'backend'")
        return _ENGINES[backend]
    if config.options.use_tensorflow is False:
        raise ConfigError("option 'use_tensorflow': is False, but Theano is not supported any more.")
    return None
