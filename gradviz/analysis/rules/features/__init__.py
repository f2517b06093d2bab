"""Rules about what a network gets of columns and lengths."""
