"""Capture in, text or bytes out. No torch, no file handling."""
