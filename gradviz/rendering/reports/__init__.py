"""Findings, memory, gradient flow and explanations: text for people, JSON for programs."""
