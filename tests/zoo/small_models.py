"""Makes models of `transformers` a few layers deep and a few units wide, with random weights: nothing is fetched."""

from __future__ import annotations

from typing import Any

import transformers
from transformers import AutoConfig

from tests.zoo.family import Family, Kind, Subject
from tests.zoo.model_inputs import Inputs

_SIZES: dict[int, tuple[str, ...]] = {
    0: ("pad_token_id",),
    1: ("bos_token_id", "decoder_start_token_id"),
    2: ("eos_token_id", "num_key_value_heads"),
    4: (
        *("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_decoder_layers", "num_encoder_layers"),
        *("encoder_layers", "decoder_layers", "encoder_attention_heads", "decoder_attention_heads"),
        *("num_attention_heads", "n_head", "n_heads", "num_heads"),
    ),
    8: ("head_dim", "d_kv", "d_head", "patch_size"),
    32: (
        *("hidden_size", "n_embd", "d_model", "d_embed", "dim", "embedding_size", "hidden_dim", "lru_width"),
        "image_size",
    ),
    64: (
        *("intermediate_size", "d_ff", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim", "d_inner"),
        *("max_position_embeddings", "n_positions", "max_source_positions", "max_target_positions"),
    ),
    99: ("vocab_size",),
}
SMALL_SIZES = {name: size for size, names in _SIZES.items() for name in names}
"""Sizes by the names that configurations have for them; each is used where a configuration has a field of that name."""

DROPOUT = 0.1
_WORDS_FOR_DROPOUT = ("dropout", "drop_rate", "drop_prob", "pdrop", "drop_path_rate")


def family(name: str, kind: Kind, model_class: str, inputs: Inputs, **sizes: Any) -> Family:
    """The family of a ``model_type``.

    Args:
        model_class: a class of `transformers`, or what follows ``AutoModel``: ``ForMaskedLM``.
        inputs: makes the inputs of one step from the model's configuration.
        sizes: fields of the configuration, beside or instead of the small ones.
    """

    def make() -> Subject:
        config = _small_config(name, sizes)
        by_name = getattr(transformers, model_class, None) if model_class else None
        model = by_name(config) if by_name else getattr(transformers, f"AutoModel{model_class}").from_config(config)
        return Subject(model.train(), inputs(model.config))

    return Family(name, kind, make)


def _small_config(model_type: str, sizes: dict[str, Any]) -> Any:
    known = AutoConfig.for_model(model_type).to_dict()
    small = {name: size for name, size in SMALL_SIZES.items() if name in known}
    config = AutoConfig.for_model(model_type, **{**small, **sizes})
    _turn_dropout_on(config)
    return config


def _turn_dropout_on(config: Any) -> None:
    for name, value in vars(config).items():
        if isinstance(value, transformers.PretrainedConfig):
            _turn_dropout_on(value)
        elif type(value) is float and any(word in name for word in _WORDS_FOR_DROPOUT):
            setattr(config, name, DROPOUT)
