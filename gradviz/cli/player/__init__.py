"""`gradviz replay` in a terminal, with keys."""
