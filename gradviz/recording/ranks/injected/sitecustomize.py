"""Records this process if it trains: gradviz put this folder on PYTHONPATH, for the processes of a job.

Python imports it when it starts. Nothing is loaded before the program imports torch. A sitecustomize module that was
there before is run as without this one.
"""

import os
import sys

_FOLDER = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib is not loaded for this


class _UntilTorch:
    """Attaches the recorder when the program begins to import torch."""

    is_asking = False
    """Whether the other finders are asked for torch now."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        if name != "torch" or self.is_asking:
            return None
        import importlib.util

        self.is_asking = True
        sys.meta_path.remove(self)  # type: ignore[arg-type]
        spec = importlib.util.find_spec(name)
        if spec is None:
            return None
        if importlib.util.find_spec("gradviz") is None:
            # As the last one: the program's own modules come first, as without gradviz.
            sys.path.append(os.environ.get("GRADVIZ_PACKAGE", ""))
        try:
            from gradviz.recording.ranks.child_session import attach
        except ImportError as error:
            sys.stderr.write(f"gradviz: process {os.getpid()} is not recorded: {str(error)!r}\n")
            return spec
        attach()
        return importlib.util.find_spec(name)


def _run_the_next() -> None:
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != _FOLDER]  # noqa: PTH100
    this = sys.modules.pop("sitecustomize", None)
    try:
        __import__("sitecustomize")  # of the user or of the system
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        if this is not None:
            sys.modules["sitecustomize"] = this


if os.environ.get("GRADVIZ_JOB"):
    # The modules with the types of a finder are not loaded here.
    sys.meta_path.insert(0, _UntilTorch())  # type: ignore[arg-type]
_run_the_next()
