"""The tree in the terminal."""
