"""Formats for other programs: DOT, Mermaid, JSON, GraphML, Model Explorer."""
