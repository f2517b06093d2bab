"""Imported relatively by the programs of this package."""

SCALE = 3.0
