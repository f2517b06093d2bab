"""Says in which respects the ranks of a job differ, and in which they are suspiciously alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from statistics import median

from gradviz.analysis.diff.comparison import Side, compare
from gradviz.analysis.finding import Location
from gradviz.analysis.ranks.calls_of_rank import graph_of_call, location_of_backward, location_of_use, parameter_names
from gradviz.analysis.ranks.communication import communication
from gradviz.analysis.ranks.drift import DIGEST, drift_between, first_difference
from gradviz.analysis.ranks.rank_difference import RankComparison, RankDifference
from gradviz.analysis.ranks.rank_summary import BackwardSummary, RankSummary
from gradviz.analysis.ranks.rank_words import rank_words
from gradviz.analysis.ranks.stand_words import at_words
from gradviz.analysis.ranks.stragglers import straggler
from gradviz.capture.capture import Capture
from gradviz.capture.rank_end import RankEnd
from gradviz.graph.number_words import counted

OUTLIER = 10.0
"""A gradient norm that is this many times larger or smaller than the median of all ranks stands out."""
STAGES = "ranks send each other tensors, so their parts of the work may differ"
JOINED = "torch's Join answers for the ranks whose data is shorter"
MAX_NAMES = 4
MAX_CHANGES = 4


def compared_ranks(
    summaries: Sequence[RankSummary],
    world_size: int,
    load: Callable[[int], Capture],
    disclosures: Sequence[str] = (),
    ends: Sequence[RankEnd] = (),
) -> RankComparison:
    """Compare at least one rank; `load` reads the capture of a rank again, for a few that differ.

    Args:
        ends: how ranks ended, with the collectives that they called.
    """
    return RankComparison(
        summaries[0].program,
        world_size,
        tuple(summaries),
        tuple(_Comparing(summaries, world_size, load, ends).differences()),
        (*disclosures, *_what_is_not_compared(summaries, ends)),
        communication(ends),
    )


class _Comparing:
    def __init__(
        self,
        summaries: Sequence[RankSummary],
        world_size: int,
        load: Callable[[int], Capture],
        ends: Sequence[RankEnd],
    ) -> None:
        self._all = summaries
        self._world_size = world_size
        self._load = load
        self._ends = ends

    def differences(self) -> Iterator[RankDifference]:
        if len(self._all) < 2:
            return
        yield from self._numbers_of_calls()
        yield from self._errors()
        common = sorted(set.intersection(*(set(each.calls) for each in self._all)))
        yield from self._structures(common)
        yield from self._drift()
        yield from self._alike(common)
        yield from self._outliers(common, "the gradient", "norm", lambda call: call.norm)
        yield from self._outliers(common, "the loss", "value", lambda call: call.loss)
        yield from self._slow()

    def _who(self, ranks: Sequence[RankSummary]) -> str:
        return rank_words([each.rank.number for each in ranks], ranks[0].rank, self._world_size)

    def _groups(self, key: Callable[[RankSummary], object]) -> list[list[RankSummary]]:
        """Ranks with the same key together, the largest group first."""
        groups: dict[object, list[RankSummary]] = {}
        for each in self._all:
            groups.setdefault(key(each), []).append(each)
        return sorted(groups.values(), key=lambda group: (-len(group), group[0].rank.number))

    def _numbers_of_calls(self) -> Iterator[RankDifference]:
        groups = self._groups(lambda each: each.backward_calls)
        if len(groups) > 1:
            parts = [f"{self._who(group)} made {group[0].backward_calls:,}" for group in groups[:MAX_NAMES]]
            meant = STAGES if self._are_stages else JOINED if self._are_joined else ""
            why = meant or "where gradients are exchanged, a rank that makes more of them waits for the others"
            yield RankDifference(
                "backward_calls",
                f"numbers of backward calls differ: {', '.join(parts)}; {why}",
                is_alarm=not meant,
            )

    @property
    def _are_joined(self) -> bool:
        return all(each.may_make_fewer_calls for each in self._all)

    @property
    def _are_stages(self) -> bool:
        """Whether ranks compute different parts of a model, and send each other what the next part needs."""
        return any(each.traffic for each in self._all)

    def _errors(self) -> Iterator[RankDifference]:
        for group in self._groups(lambda each: each.error):
            if group[0].error is not None:
                yield RankDifference("error", f"{self._who(group)} raised {group[0].error}")

    def _structures(self, numbers: Sequence[int]) -> Iterator[RankDifference]:
        """The first backward call in which graphs differ: what only some ranks have."""
        for number in numbers:
            groups = self._groups(lambda each, at=number: each.calls[at].structure)  # type: ignore[misc]
            if len(groups) > 1 and self._are_stages:
                yield RankDifference("structure", f"the graphs of backward {number} differ: {STAGES}", is_alarm=False)
                return
            if len(groups) > 1:
                usual = groups[0]
                for group in groups[1:MAX_NAMES]:
                    yield self._structure(number, usual, group)
                return

    def _structure(self, number: int, usual: list[RankSummary], other: list[RankSummary]) -> RankDifference:
        one, two = usual[0].rank, other[0].rank
        a, b = self._load(one.number), self._load(two.number)
        graphs = graph_of_call(a, number), graph_of_call(b, number)
        assert graphs[0] is not None
        assert graphs[1] is not None
        sides = Side("A", a, a.graphs.index(graphs[0])), Side("B", b, b.graphs.index(graphs[1]))
        changes = [each for each in compare(*sides).difference.changes if not each.is_cosmetic]
        details = [f"{each.what} (A is {one.kind} {one.number}, B {two.number})" for each in changes[:MAX_CHANGES]]
        names = parameter_names(graphs[0]), parameter_names(graphs[1])
        only = sorted(names[0] - names[1]), sorted(names[1] - names[0])
        details += self._parameters_of_one(a, only[0], usual, other)
        details += self._parameters_of_one(b, only[1], other, usual)
        having, missing = (usual, other) if only[0] or not only[1] else (other, usual)
        line = usual[0].calls[number].line
        return RankDifference(
            "structure",
            f"the graphs of backward {number}{f' at {line}' if line else ''} differ: {self._who(other)} from "
            f"{self._who(usual)}",
            # Wrappers that expect it exchange gradients all the same.
            is_alarm=not self._all_reduced(a, names[0] ^ names[1]) and not self._all_reduced(b, names[0] ^ names[1]),
            details=tuple(details),
            having=_numbers(having),
            missing=_numbers(missing),
            parameters=tuple(only[0] or only[1]),
            location=location_of_use(graphs[0] if only[0] else graphs[1], only[0] or only[1]),
        )

    def _parameters_of_one(
        self, capture: Capture, names: Sequence[str], having: list[RankSummary], missing: list[RankSummary]
    ) -> list[str]:
        if not names:
            return []
        more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
        words = f"{', '.join(names[:MAX_NAMES])}{more}: only {self._who(having)} use{'s' if len(having) == 1 else ''} "
        words += "it" if len(names) == 1 else "them"
        if not self._all_reduced(capture, names):
            words += f"; {self._who(missing)} sends no gradient, for which DistributedDataParallel would wait for ever"
        return [words]

    def _all_reduced(self, capture: Capture, names: Collection[str]) -> bool:
        reduced = {name for each in capture.parameters if each.gets_reduced_gradient for name in each.names}
        return bool(names) and reduced.issuperset(names)

    def _drift(self) -> Iterator[RankDifference]:
        """The first moment at which parameters that should be the same are not."""
        replicated = [each for each in self._all if each.replicated]
        names = Counter(each.replicated for each in replicated).most_common(1)
        same = [each for each in replicated if each.replicated == names[0][0]]
        if len(same) < 2:
            return
        number = first_difference({each.replicas for each in same}, min((each.moments for each in same), key=len))
        if number is None:
            return
        groups: dict[bytes, list[RankSummary]] = {}
        for each in same:
            groups.setdefault(each.replicas[number * DIGEST : (number + 1) * DIGEST], []).append(each)
        usual, other, *_ = sorted(groups.values(), key=lambda group: (-len(group), group[0].rank.number))
        yield self._drifted(number, usual, other)

    def _drifted(self, number: int, usual: list[RankSummary], other: list[RankSummary]) -> RankDifference:
        found = drift_between(self._load(usual[0].rank.number), self._load(other[0].rank.number), number)
        count = len(found.norms)
        details = [
            f"{name}: norm {a:.6g} on {self._who(usual)}, {b:.6g} on {self._who(other)}"
            for name, (a, b) in list(found.norms.items())[:MAX_NAMES]
        ]
        if count > MAX_NAMES:
            details.append(f"and {count - MAX_NAMES} more parameters")
        return RankDifference(
            "drift",
            f"replicas have drifted apart: {found.when}, {counted(count, 'parameter')} of {self._who(other)} "
            f"{'differs' if count == 1 else 'differ'} from those of {self._who(usual)}",
            details=tuple(filter(None, (found.how, *details))),
            having=_numbers(usual),
            missing=_numbers(other),
            parameters=tuple(found.norms),
            location=found.location,
            remedy=found.remedy,
            is_reduced=True,
        )

    def _alike(self, numbers: Sequence[int]) -> Iterator[RankDifference]:
        """Ranks whose own gradients are the same have computed them from the same data."""
        if any(each.is_tensor_parallel for each in self._all):
            return  # they are meant to
        told = [number for number in numbers if all(each.calls[number].gradients for each in self._all)]
        if not told:
            return
        groups = self._groups(lambda each: tuple(each.calls[number].gradients for number in told))
        same = [group for group in groups if len(group) > 1]
        if same:
            calls = f"backward {told[0]}" if len(told) == 1 else f"all {len(told)} compared backward calls"
            yield RankDifference(
                "same_data",
                f"{self._who(same[0])} have the same gradients of their own in {calls}: they compute the same from the "
                "same data, such as with one seed in every sampler",
                having=_numbers(same[0]),
                location=self._backward_of(same[0][0], told[0]),
                is_reduced=all(_of(same[0], number).reduced_norm is not None for number in told),
            )

    def _slow(self) -> Iterator[RankDifference]:
        found = straggler(self._ends) if not _have_several_clocks(self._all) else None
        if found is None:
            return
        line = found.line
        details = []
        if line is not None:
            details.append(
                f"it spends {line.seconds:.2g} s{at_words(line.at)}, the others {found.usual:.2g} s: {line.at.text}"
            )
        else:
            details.append("no line outside of backward and collectives takes it longer than the others")
        yield RankDifference(
            "straggler",
            f"rank {found.rank} is slow: the others wait for it {found.seconds:.2g} s of {found.of:.2g} s, in which it "
            f"comes last to {found.times:,} of {counted(found.collectives, 'collective')}",
            is_alarm=False,
            details=tuple(details),
            missing=(found.rank,),
            location=None if line is None else Location(line.at.file, line.at.line),
        )

    def _backward_of(self, rank: RankSummary, number: int) -> Location | None:
        graph = graph_of_call(self._load(rank.rank.number), number)
        return None if graph is None else location_of_backward(graph)

    def _outliers(
        self, numbers: Sequence[int], subject: str, word: str, figure: Callable[[BackwardSummary], float | None]
    ) -> Iterator[RankDifference]:
        for number in numbers[-1:]:
            figures = [(each, value) for each in self._all if (value := figure(each.calls[number])) is not None]
            middle = abs(median(value for _, value in figures)) if len(figures) > 2 else 0.0
            outside = [
                (each, value) for each, value in figures if not middle / OUTLIER <= abs(value) <= middle * OUTLIER
            ]
            far = [each for each, _ in outside]
            if middle and far:
                told = ", ".join(f"{value:.3g} on {self._who([each])}" for each, value in outside[:MAX_NAMES])
                yield RankDifference(
                    "outlier",
                    f"{subject} of backward {number} has another size on {self._who(far)}: {word} {told}; the "
                    f"median of all is {middle:.3g}",
                    is_alarm=False,
                    missing=_numbers(far),
                )


def _numbers(group: Sequence[RankSummary]) -> tuple[int, ...]:
    return tuple(each.rank.number for each in group)


def _of(group: Sequence[RankSummary], number: int) -> BackwardSummary:
    return group[0].calls[number]


def _have_several_clocks(summaries: Sequence[RankSummary]) -> bool:
    return len({each.rank.host for each in summaries}) > 1


def _what_is_not_compared(summaries: Sequence[RankSummary], ends: Sequence[RankEnd]) -> Iterator[str]:
    if not any(each.traffic for each in ends):
        yield "collectives, and who is late to them: torch's flight recorder saw none"
    elif _have_several_clocks(summaries):
        yield "who is late to collectives: the clocks of several hosts do not agree well enough"
    recorded = max((len(each.calls) for each in summaries), default=0)
    made = max((each.backward_calls for each in summaries), default=0)
    if recorded < made or made <= 1:
        yield (
            f"later steps: {counted(recorded, 'backward call')} of each rank is compared; record with "
            "--backward all --keep-going to compare more"
        )
    if any(each.is_tensor_parallel for each in summaries):
        yield "data: the ranks that share a tensor-parallel model are meant to have the same"
    if not any(each.replicated for each in summaries):
        yield "parameters: only those in DistributedDataParallel are known to be the same on all ranks"
