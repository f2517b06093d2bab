"""`gradviz replay` in a terminal: pages and keys."""
