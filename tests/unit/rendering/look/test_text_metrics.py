"""Texts are measured with the shipped font."""

from __future__ import annotations

from gradviz.rendering.look.text_metrics import FONT_FOLDER, shorten_middle, text_width, wrap


def test_wide_letters_are_wider_than_narrow_ones() -> None:
    assert text_width("WWW", 12) > 2 * text_width("iii", 12)
    assert text_width("loss", 12, bold=True) > text_width("loss", 12)


def test_a_character_that_the_font_lacks_gets_a_full_em() -> None:
    assert text_width("漢", 12) == 12


def test_a_long_name_keeps_both_ends() -> None:
    name = "transformer.encoder.layers.11.self_attention.out_proj.weight"
    short = shorten_middle(name, 160, 12)
    assert text_width(short, 12) <= 160
    assert short.startswith("transformer") and short.endswith("weight") and "…" in short


def test_a_text_that_fits_is_not_changed() -> None:
    assert shorten_middle("loss", 160, 12) == "loss"


def test_lines_are_wrapped_at_words() -> None:
    lines = wrap("the size of saved tensors of twelve nodes is unknown", 120, 12)
    assert len(lines) > 1
    assert all(text_width(line, 12) <= 120 for line in lines)
    assert " ".join(lines) == "the size of saved tensors of twelve nodes is unknown"


def test_the_font_is_shipped_with_its_licence() -> None:
    assert "SIL OPEN FONT LICENSE" in (FONT_FOLDER / "OFL.txt").read_text(encoding="utf-8")
