"""What one run recorded, and its file. Works without torch."""
