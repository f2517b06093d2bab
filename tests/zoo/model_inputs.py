"""Inputs of one training step: random texts, pictures, sounds and series, and what is to be predicted of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Inputs = Callable[[Any], dict[str, Any]]
"""Makes the inputs of one step for a model with this configuration."""

WORDS = 99
"""Size of the vocabulary; the first three are no words."""
PICTURE = 98
"""The word that stands for a part of a picture."""


def some_words(*shape: int, below: int = WORDS) -> torch.Tensor:
    """Random words."""
    return torch.randint(3, below, shape)


def text(config: Any) -> dict[str, Any]:
    """A text, each word of which is to be predicted."""
    words = some_words(2, 16)
    return {"input_ids": words, "labels": words.clone()}


def long_text(config: Any) -> dict[str, Any]:
    """The same, longer than the window of local attention."""
    words = some_words(2, 64)
    return {"input_ids": words, "labels": words.clone()}


def text_only(config: Any) -> dict[str, Any]:
    """A text for a model that predicts nothing."""
    return {"input_ids": some_words(2, 16)}


def text_class(config: Any) -> dict[str, Any]:
    """Texts that belong to one of two classes."""
    return {"input_ids": some_words(2, 16), "labels": torch.tensor([0, 1])}


def text_and_answer(config: Any) -> dict[str, Any]:
    """A text and the text that it is to become."""
    answer = some_words(2, 12)
    return {"input_ids": some_words(2, 16), "labels": answer, "decoder_input_ids": answer.clone()}


def long_text_and_answer(config: Any) -> dict[str, Any]:
    """The same, longer than the window of local attention."""
    return {**text_and_answer(config), "input_ids": some_words(2, 64)}


# -- pictures ----------------------------------------------------------------------------------------------------


def images(size: int = 32) -> Inputs:
    """Pictures of which nothing is to be predicted."""
    return lambda config: {"pixel_values": torch.randn(2, 3, size, size)}


def image_class(size: int = 32) -> Inputs:
    """Pictures that belong to one of two classes."""
    return lambda config: {"pixel_values": torch.randn(2, 3, size, size), "labels": torch.tensor([0, 1])}


def image_parts(config: Any) -> dict[str, Any]:
    """Pictures in which each pixel belongs to one of two classes."""
    return {"pixel_values": torch.randn(2, 3, 64, 64), "labels": torch.randint(0, 2, (2, 64, 64))}


def video_class(config: Any) -> dict[str, Any]:
    """Films of four pictures that belong to one of two classes."""
    return {"pixel_values": torch.randn(2, 4, 3, 32, 32), "labels": torch.tensor([0, 1])}


def image_and_points(config: Any) -> dict[str, Any]:
    """A picture, and two points on what is to be cut out of it."""
    return {"pixel_values": torch.randn(1, 3, 64, 64), "input_points": torch.rand(1, 1, 2, 2) * 60}


# -- several senses ----------------------------------------------------------------------------------------------


def text_and_image(config: Any) -> dict[str, Any]:
    """Texts and pictures."""
    return {"input_ids": some_words(2, 12), "pixel_values": torch.randn(2, 3, 32, 32)}


def captions(config: Any) -> dict[str, Any]:
    """Texts and pictures, each pair of which belongs together."""
    return {**text_and_image(config), "return_loss": True}


def text_image_and_both(config: Any) -> dict[str, Any]:
    """Texts and pictures for a model that looks at each and at both."""
    return {**text_and_image(config), "attention_mask": torch.ones(2, 12, dtype=torch.long)}


def image_in_text(config: Any) -> dict[str, Any]:
    """Texts with a picture of 16 parts in them."""
    words = some_words(2, 24, below=PICTURE)
    words[:, 2:18] = PICTURE
    return {"input_ids": words, "labels": words.clone(), "pixel_values": torch.randn(2, 3, 32, 32)}


def text_and_regions(config: Any) -> dict[str, Any]:
    """Texts, and features of five regions of a picture with their places."""
    return {"input_ids": some_words(2, 16), "visual_feats": torch.randn(2, 5, 24), "visual_pos": torch.rand(2, 5, 4)}


# -- sounds ------------------------------------------------------------------------------------------------------


def speech(config: Any) -> dict[str, Any]:
    """Waves, and the letters that are heard in them."""
    return {"input_values": torch.randn(2, 4000), "labels": some_words(2, 4, below=config.vocab_size)}


def wave(config: Any) -> dict[str, Any]:
    """Waves that are to be given back."""
    return {"input_values": torch.randn(2, 1, 640)}


def spectrum_and_text(config: Any) -> dict[str, Any]:
    """Spectra of 16 bands and 64 frames, and the texts that are heard in them."""
    return {"input_features": torch.randn(2, 16, 64), "labels": some_words(2, 12)}


def frames_and_text(config: Any) -> dict[str, Any]:
    """The same, frame by frame."""
    return {"input_features": torch.randn(2, 32, 16), "labels": some_words(2, 8)}


def spectrum_class(config: Any) -> dict[str, Any]:
    """Spectra that belong to one of two classes."""
    return {"input_values": torch.randn(2, 48, 16), "labels": torch.tensor([0, 1])}


def spectrum(config: Any) -> dict[str, Any]:
    """Spectra that are to become waves."""
    return {"input_features": torch.randn(2, 12, 100)}


def sound_codes(config: Any) -> dict[str, Any]:
    """Music as four streams of codes."""
    return {"input_ids": some_words(8, 12), "labels": some_words(2, 12, 4)}


# -- series ------------------------------------------------------------------------------------------------------


def series(config: Any) -> dict[str, Any]:
    """A series with the times of its values, and how it goes on."""
    past = config.context_length + max(config.lags_sequence)
    return {
        "past_values": torch.randn(2, past),
        "past_time_features": torch.randn(2, past, 2),
        "past_observed_mask": torch.ones(2, past),
        "future_values": torch.randn(2, config.prediction_length),
        "future_time_features": torch.randn(2, config.prediction_length, 2),
    }


def channels(config: Any) -> dict[str, Any]:
    """Three series side by side, and how they go on."""
    return {"past_values": torch.randn(2, 32, 3), "future_values": torch.randn(2, 4, 3)}


def decisions(config: Any) -> dict[str, Any]:
    """What a player saw, did and got in five moves."""
    return {
        "states": torch.randn(2, 5, 6),
        "actions": torch.randn(2, 5, 3),
        "rewards": torch.randn(2, 5, 1),
        "returns_to_go": torch.randn(2, 5, 1),
        "timesteps": torch.arange(5).expand(2, 5),
        "attention_mask": torch.ones(2, 5),
    }
