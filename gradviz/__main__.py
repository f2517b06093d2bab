"""Runs the command line for ``python -m gradviz``."""

from gradviz.cli import main

if __name__ == "__main__":
    main()
