"""What is before the layers of a Transformer: vectors of labels, positions, dropout."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import returnn.frontend as rf
from returnn.frontend._feature_dims import feature_dim
from returnn.frontend._transformer.parts import Part, drop, make_part
from returnn.tensor import Dim, Tensor
from returnn.util.errors import ConfigError, nearest_hint

DEFAULT_DIM = Dim(512, name="transformer-default-model-dim")


class Embedded(rf.Module):
    """
    `dropout(input_embedding_proj(input_embedding(labels)) * scale + positions)`. Encoders and decoders derive from it.
    Parameters: `input_embedding`, `input_embedding_proj`.
    """

    def __init__(
        self,
        vocab_dim: Dim | int,
        model_dim: Dim | int,
        *,
        pos_enc: Callable[..., Tensor] | rf.Module | dict[str, Any] | None,
        embed_dim: Dim | int | None,
        input_embedding: Part | bool | None,
        input_embedding_scale: float | None,
        input_dropout: float,
    ) -> None:
        """
        :param vocab_dim: labels that come in
        :param model_dim: features that come out
        :param pos_enc: positions, added; called with `spatial_dim`, `feat_dim` and `offset`. None: none
        :param embed_dim: features of a label, if they are not `model_dim`; then there is a linear map
        :param input_embedding: class, dict or module; True: `rf.Embedding`; False or None: features come in
        :param input_embedding_scale: factor of the vectors. Default: sqrt(model_dim) (Vaswani et al. 2017, section 3.4)
        :param input_dropout: probability to drop a feature of what comes out, in training
        """
        super().__init__()
        self.vocab_dim = vocab_dim = feature_dim(vocab_dim, "vocab_dim")
        self.model_dim = model_dim = feature_dim(model_dim, "model_dim")
        self.embed_dim = embed_dim = None if embed_dim is None else feature_dim(embed_dim, "embed_dim")
        self.input_embedding = _input_embedding(input_embedding, vocab_dim, embed_dim or model_dim)
        self.input_embedding_proj = (
            None if embed_dim in (None, model_dim) else rf.Linear(embed_dim, model_dim, with_bias=False)
        )
        self.input_embedding_scale = (
            model_dim.dimension**0.5 if input_embedding_scale is None else input_embedding_scale
        )
        self.pos_enc = rf.build_from_dict(pos_enc, feat_dim=model_dim) if isinstance(pos_enc, dict) else pos_enc
        self.input_dropout = input_dropout
        self.dropout_broadcast = rf.dropout_broadcast_default()

    def _embed(self, source: Tensor, spatial_dim: Dim, offset: Tensor | int | None = None) -> Tensor:
        x = source if self.input_embedding is None else self.input_embedding(source)
        if self.input_embedding_proj is not None:
            x = self.input_embedding_proj(x)
        if self.input_embedding_scale != 1:
            x = x * self.input_embedding_scale
        if self.pos_enc is not None:
            x = x + rf.cast(self.pos_enc(spatial_dim=spatial_dim, feat_dim=self.model_dim, offset=offset), x.dtype)
        x = x.copy_with_roles(feature_dim=self.model_dim)
        return drop(x, self.input_dropout, self.dropout_broadcast, self.model_dim)


def _input_embedding(part: Part | bool | None, vocab_dim: Dim, embed_dim: Dim) -> Any:
    if part is None or part is False:
        return None
    return make_part(rf.Embedding if part is True else part, vocab_dim, embed_dim, option="input_embedding")


def take_renamed(made: type, given: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """
    :param made: the class, for messages
    :param given: options under earlier names
    :param names: earlier name -> name
    :return: the options under their names
    :raises ConfigError: if one is unknown
    """
    for name in given:
        if name not in names:
            known = [option for option in inspect.signature(made).parameters if option != "compat_kwargs"]
            raise ConfigError(f"{made.__name__}: there is no option {name!r}.\n  {nearest_hint(name, known)}")
    return {names[name]: value for name, value in given.items()}
