"""Colours, outlines, sizes and the font, for all formats."""
