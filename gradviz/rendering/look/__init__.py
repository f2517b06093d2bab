"""Colours, shapes, sizes and the font, for all formats."""
