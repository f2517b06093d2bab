"""The version, apart from the package itself, so that reading it loads nothing else."""

__version__ = "0.1.0"
