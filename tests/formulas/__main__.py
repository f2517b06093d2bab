"""How much of torch ``gradviz explain`` explains, and how much of that was compared with torch itself.

``python -m tests.formulas`` (``make formulas``) prints the figures; it exits with 1 where something disagrees.
"""

from __future__ import annotations

import sys
import time
from collections import Counter

from gradviz.formulas.available_formulas import cache_file, known_formulas
from gradviz.formulas.torch_formulas import find_formula_files
from tests.formulas import coverage, graphs, operators, plain_samples


def main() -> int:
    print(_time())
    known = coverage.known_names()
    for line in coverage.report(known):
        print(line)
    wrong_slots = coverage.classes_that_differ()
    agreeing = len(known.exact & known.of_torch) - len(wrong_slots)
    print(f"  {agreeing} of which the compiled class saves what the formula names, and nothing else")
    comparison = operators.compare()
    plain = plain_samples.compare_plain()
    for line in (*comparison.report(), *plain.report()):
        print(line)
    for title, nodes in (("samples", graphs.of_samples()), ("ten transformer families", graphs.of_transformers())):
        for line in _explained(title, nodes, known):
            print(line, flush=True)
    problems = (*wrong_slots, *comparison.problems, *plain.problems)
    for problem in problems:
        print("differs:", problem)
    return 1 if problems else 0


def _time() -> str:
    """Of reading torch's formulas, and of having them the next time."""
    known_formulas()
    path = cache_file(find_formula_files())
    path.unlink(missing_ok=True)
    seconds = []
    for _ in range(2):
        known_formulas.cache_clear()
        began = time.perf_counter()
        known_formulas()
        seconds.append(time.perf_counter() - began)
    return f"torch's formulas: read in {seconds[0]:.1f} s, from the cache in {seconds[1] * 1000:.0f} ms"


def _explained(title: str, nodes: Counter[str], known: coverage.KnownNames) -> list[str]:
    total = sum(nodes.values())
    ways = (
        ("torch's own formula or a page by hand", known.exact | known.special),
        ("plain mathematics, or that page", known.plain | known.special),
    )
    lines = [f"{title}: {total:,} nodes of {len(nodes)} names"]
    for way, names in ways:
        having = sum(count for name, count in nodes.items() if name in names)
        lines.append(f"  {having / total:.2%} have {way}")
    missing = [f"{name} ({count})" for name, count in nodes.most_common() if name not in known.plain | known.special]
    if missing:
        lines.append(f"  without plain mathematics: {', '.join(missing[:12])}")
    return lines


if __name__ == "__main__":
    sys.exit(main())
