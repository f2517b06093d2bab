"""GV725."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.graph.modules_and_schedules import StateLoad


class NothingLoaded(Rule):
    """A state is loaded with ``strict=False``, and its keys are not those of the model.

    What it finds
    -------------
    ``load_state_dict(..., strict=False)`` that loads almost nothing of what it was given, or whose unknown keys would
    be those of the model with another prefix, such as ``module.`` or ``model.``. States of which most keys fit are left
    alone, like those without a new head, and so is a call after which another one loads the same module.

    Why it matters
    --------------
    ``strict=False`` passes over every key that it does not know. The model trains from its random initial values, as if
    there were no pretrained ones, and nothing says so.

    Example
    -------
    trained, model = torch.nn.Linear(4, 2), torch.nn.Linear(4, 2)
    state = {"module." + key: value for key, value in trained.state_dict().items()}
    model.load_state_dict(state, strict=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.randn(5, 4)).square().mean().backward()
        optimizer.step()

    Instead
    -------
    trained, model = torch.nn.Linear(4, 2), torch.nn.Linear(4, 2)
    state = {"module." + key: value for key, value in trained.state_dict().items()}
    model.load_state_dict({key.removeprefix("module."): value for key, value in state.items()})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.randn(5, 4)).square().mean().backward()
        optimizer.step()
    """

    code = "GV725"
    name = "nothing_loaded"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        log = case.dataflow.log
        last = {load.module: load for load in log.loads}
        for load in last.values():
            if load.call_site is None or log.call_sites[load.call_site].is_library or not load.missing_count:
                continue
            match = _other_prefix(load)
            loaded = load.given - load.unexpected_count
            if match is not None or loaded <= _FEW * load.given:
                yield self._finding(case, load, match)

    def _finding(self, case: Case, load: StateLoad, match: _Match | None) -> Finding:
        loaded, wanted = load.given - load.unexpected_count, load.missing_count + load.given - load.unexpected_count
        example = ""
        if match is not None:
            example = f": it has {match.given!r}, the model wants {match.wanted!r}"
        elif load.unexpected and load.missing:
            example = f": it has {load.unexpected[0]!r}, the model wants {load.missing[0]!r}"
        return self.finding(
            f"{'nothing' if not loaded else f'only {loaded:,}'} of the {load.given:,} keys of a state is loaded into "
            f"{load.class_name}, which has {wanted:,}{example}"
            if load.given
            else f"an empty state is loaded into {load.class_name}, which has {wanted:,} keys",
            symptom="grad_wrong",
            why="strict=False passes over keys that the model does not have: it keeps its initial values",
            fix=_remedy(load, match),
            location=case.location_of_site(load.call_site),
            tensors=names_of(case.dataflow, _not_loaded(case, load)),
            evidence={
                "given": load.given,
                "loaded": loaded,
                "missing": load.missing_count,
                "unexpected": load.unexpected_count,
            },
        )


def _not_loaded(case: Case, load: StateLoad) -> list[int]:
    """The trained parameters of the module that keep their initial values."""
    ends = tuple(f".{name}" for name in load.missing)
    tensors = case.dataflow.log.tensors
    return [n for n in sorted(case.histories.trained) if any(name.endswith(ends) for name in tensors[n].names)]


_FEW = 0.1
_MIN_SHARE = 0.5


class _Match(Struct, frozen=True):
    """A key that was given, and one of the model, which differ by a prefix."""

    given: str
    wanted: str

    @property
    def is_surplus(self) -> bool:
        return len(self.given) > len(self.wanted)

    @property
    def prefix(self) -> str:
        longer, shorter = (self.given, self.wanted) if self.is_surplus else (self.wanted, self.given)
        return longer.removesuffix(shorter)


def _other_prefix(load: StateLoad) -> _Match | None:
    """An example of the most frequent prefix by which unknown keys differ from those of the model, if most do."""
    pairs = [
        *(_Match(given, wanted) for given, wanted in _by_suffix(load.unexpected, frozenset(load.missing))),
        *(_Match(given, wanted) for wanted, given in _by_suffix(load.missing, frozenset(load.unexpected))),
    ]
    counts = Counter((pair.prefix, pair.is_surplus) for pair in pairs)
    if not counts:
        return None
    most, count = counts.most_common(1)[0]
    is_most = count >= _MIN_SHARE * min(len(load.missing), len(load.unexpected))
    return next(pair for pair in pairs if (pair.prefix, pair.is_surplus) == most) if is_most else None


def _by_suffix(longer: tuple[str, ...], shorter: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Each of the longer names, with the longest end of it, after a dot, that is one of the shorter names."""
    for name in longer:
        parts = name.split(".")
        ends = (".".join(parts[first:]) for first in range(1, len(parts)))
        end = next((each for each in ends if each in shorter), None)
        if end is not None:
            yield name, end


def _remedy(load: StateLoad, match: _Match | None) -> str:
    if match is None and load.nested:
        return f"load the state inside: state[{load.nested[0]!r}], and leave out strict=False"
    if match is None:
        return "compare the keys of the state with those of model.state_dict(), and leave out strict=False"
    if match.is_surplus:
        return f"strip the prefix: {{key.removeprefix({match.prefix!r}): value for key, value in state.items()}}"
    return f"add the prefix: {{{match.prefix!r} + key: value for key, value in state.items()}}"
