"""``gradviz`` that logs every torch call, too, as checks need it: ``python -m tests.harmless.logging_calls record``."""

from functools import partial

from gradviz.cli import main
from gradviz.recording.run import recording_plan


def run() -> None:
    """The command line; every recording that it makes logs all calls."""
    recording_plan.RecordingPlan = partial(recording_plan.RecordingPlan, calls=True)  # type: ignore[assignment, misc]
    main()


if __name__ == "__main__":
    run()
