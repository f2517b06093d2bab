"""The version of the package, in its own module so that reading it imports nothing else."""

__version__ = "0.2.0"
