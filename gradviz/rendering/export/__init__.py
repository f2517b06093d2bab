"""Formats that other programs read: DOT, Mermaid, JSON, GraphML, Model Explorer."""
