"""Findings, memory, gradient flow and explanations as text for people."""
