"""Measures what ``gradviz check`` adds to the time of the corpus' scripts: python -m tests.corpus_time SCORES.json

``tests/corpus/score.py --json`` writes SCORES.json; each script is also run under python.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

CASES = Path(__file__).parent / "corpus" / "cases"


def plain_seconds(case: str) -> float:
    """How long the script takes under python."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        subprocess.run([sys.executable, CASES / case / "script.py"], cwd=folder, capture_output=True, check=False)
        return time.monotonic() - began


def main(scores: str) -> None:
    """Print median and maximum of the ratio and of the difference."""
    rows = json.loads(Path(scores).read_text())["rows"]
    added = {row["id"]: (row["seconds"], plain_seconds(row["id"])) for row in rows}
    ratios = {case: checked / plain for case, (checked, plain) in added.items()}
    worst = max(ratios, key=lambda case: ratios[case])
    seconds = {case: checked - plain for case, (checked, plain) in added.items()}
    slowest = max(seconds, key=lambda case: seconds[case])
    middle = median(ratios.values())
    print(f"gradviz check takes {middle:.2f} times as long as python (median of {len(ratios)} scripts)")
    print(f"worst: {worst}, {ratios[worst]:.1f} times ({added[worst][1]:.1f} s to {added[worst][0]:.1f} s)")
    print(f"it adds {median(seconds.values()):.1f} s (median), at most {seconds[slowest]:.1f} s ({slowest})")


if __name__ == "__main__":
    main(sys.argv[1])
