"""One recorded run, and its file. Works without torch."""
