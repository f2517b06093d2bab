"""From a capture to text or bytes. Nothing here imports torch or opens files."""
