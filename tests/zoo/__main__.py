"""``python -m tests.zoo [NAMES]``: checks every family, or those named, and prints a table."""

from __future__ import annotations

import sys
import warnings

from tests.zoo.families import families
from tests.zoo.report import check, table


def main(names: list[str]) -> int:
    """Check and print; 1 where something is wrong."""
    warnings.simplefilter("ignore")
    results = [check(family) for family in families() if not names or family.name in names]
    print(table(results))
    return int(any(result.problems for result in results))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
