"""Findings, memory and explanations as text and as files for other programs."""
