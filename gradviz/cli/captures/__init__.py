"""Opens captures for commands: from a script or a file, with or without a check, whole or in part."""
