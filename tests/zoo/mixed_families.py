"""Families that hear, that look and read at once, and that follow series."""

from __future__ import annotations

from typing import Any

from tests.zoo.family import Family
from tests.zoo.model_inputs import (
    PICTURE,
    WORDS,
    captions,
    channels,
    decisions,
    frames_and_text,
    image_in_text,
    series,
    sound_codes,
    spectrum,
    spectrum_and_text,
    spectrum_class,
    speech,
    text_and_image,
    text_and_regions,
    text_image_and_both,
    wave,
)
from tests.zoo.small_models import SMALL_SIZES, family

_CONVOLUTIONS = {
    "conv_dim": (16, 16, 16),
    "conv_stride": (5, 4, 4),
    "conv_kernel": (10, 4, 4),
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
    "vocab_size": 32,
    "mask_time_length": 2,
    "layerdrop": 0.0,
}
_TOWER = {
    name: SMALL_SIZES[name]
    for name in (
        *("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "max_position_embeddings"),
        *("pad_token_id", "bos_token_id", "eos_token_id", "image_size", "patch_size"),
    )
} | {"vocab_size": WORDS}
_FORECAST = {"prediction_length": 4, "context_length": 8, "lags_sequence": [1, 2], "num_time_features": 2}
_PATCHES = {
    "num_input_channels": 3,
    "context_length": 32,
    "patch_length": 4,
    "patch_stride": 4,
    "prediction_length": 4,
}


def _towers(*fields: str, **model_types: str) -> dict[str, dict[str, Any]]:
    """Small configurations of the parts of a model, by the fields that hold them."""
    typed = {name: {**_TOWER, "model_type": model_type} for name, model_type in model_types.items()}
    return {**dict.fromkeys(fields, _TOWER), **typed}


SOUND: tuple[Family, ...] = (
    family("wav2vec2", "audio", "ForCTC", speech, **_CONVOLUTIONS),
    family("hubert", "audio", "ForCTC", speech, **_CONVOLUTIONS),
    family("wavlm", "audio", "ForCTC", speech, **_CONVOLUTIONS),
    family("whisper", "audio", "ForSpeechSeq2Seq", spectrum_and_text, num_mel_bins=16, max_source_positions=32),
    family("speech_to_text", "audio", "ForSpeechSeq2Seq", frames_and_text, input_feat_per_channel=16, conv_channels=32),
    family(
        "audio-spectrogram-transformer",
        "audio",
        "ForAudioClassification",
        spectrum_class,
        max_length=48,
        num_mel_bins=16,
    ),
    family(
        "encodec",
        "audio",
        "",
        wave,
        num_filters=4,
        hidden_size=16,
        codebook_dim=16,
        codebook_size=32,
        upsampling_ratios=[4, 2],
    ),
    family(
        "dac",
        "audio",
        "",
        wave,
        encoder_hidden_size=8,
        decoder_hidden_size=32,
        downsampling_ratios=[2, 4],
        n_codebooks=3,
        codebook_size=32,
        codebook_dim=4,
    ),
    family(
        "univnet",
        "audio",
        "UnivNetModel",
        spectrum,
        model_in_channels=8,
        model_hidden_channels=8,
        resblock_kernel_sizes=(3, 3),
        resblock_stride_sizes=(4, 4),
        resblock_dilation_sizes=((1, 3), (1, 3)),
        kernel_predictor_hidden_channels=8,
    ),
    family("musicgen_decoder", "audio", "MusicgenForCausalLM", sound_codes),
)

SEVERAL_SENSES: tuple[Family, ...] = (
    family("clip", "several senses", "", captions, **_towers("text_config", "vision_config"), projection_dim=16),
    family("siglip", "several senses", "", captions, **_towers("text_config", "vision_config")),
    family("blip", "several senses", "", captions, **_towers("text_config", "vision_config"), projection_dim=16),
    family("groupvit", "several senses", "", captions, **_towers("text_config", "vision_config"), projection_dim=16),
    family("vilt", "several senses", "", text_and_image),
    family("lxmert", "several senses", "", text_and_regions, l_layers=2, x_layers=2, r_layers=2, visual_feat_dim=24),
    family(
        "flava",
        "several senses",
        "FlavaModel",
        text_image_and_both,
        **_towers("text_config", "image_config", "multimodal_config"),
    ),
    family(
        "llava",
        "several senses",
        "LlavaForConditionalGeneration",
        image_in_text,
        image_token_index=PICTURE,
        **_towers(text_config="llama", vision_config="clip_vision_model"),
    ),
)

SERIES: tuple[Family, ...] = (
    family("time_series_transformer", "time series", "TimeSeriesTransformerForPrediction", series, **_FORECAST),
    family("informer", "time series", "InformerForPrediction", series, **_FORECAST),
    family(
        "autoformer",
        "time series",
        "AutoformerForPrediction",
        series,
        **_FORECAST,
        label_length=4,
        moving_average=3,
    ),
    family("patchtst", "time series", "PatchTSTForPrediction", channels, **_PATCHES),
    family("patchtsmixer", "time series", "PatchTSMixerForPrediction", channels, **_PATCHES),
    family("decision_transformer", "time series", "DecisionTransformerModel", decisions, state_dim=6, act_dim=3),
)

FAMILIES = (*SOUND, *SEVERAL_SENSES, *SERIES)
