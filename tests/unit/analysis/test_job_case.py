"""Where the ranks of a job part, from how each ended."""

from __future__ import annotations

from msgspec.structs import replace

from gradviz.analysis.finding import Finding
from gradviz.analysis.ranks.job_case import JobCase
from gradviz.analysis.ranks.job_findings import job_findings
from gradviz.analysis.rules import RULES
from gradviz.capture.capture import Rank
from gradviz.capture.rank_end import WRAPPER, CodeLine, Collective, RankEnd, Stand


def line(number: int, condition: int = 0, *, is_else: bool = False) -> CodeLine:
    return CodeLine("train.py", number, f"line {number}", "main", (5, 20), condition, "if rank == 0:", is_else)


def call(name: str, number: int, at: CodeLine, shape: tuple[int, ...] = (3,), *, is_over: bool = True) -> Collective:
    return Collective(name, number, "0", (shape,), ("Float",), at, is_over=is_over)


def hung(rank: int, *calls: Collective) -> RankEnd:
    last = calls[-1]
    assert last.at is not None
    return RankEnd(rank, "hung", 1.0, 2, "", Stand((last.at,), last.name), calls, len(calls))


def found(*ends: RankEnd, size: int = 2) -> list[Finding]:
    job = JobCase(ends, 5.0, Rank(0, size, "job"), size)
    return list(job_findings(job, RULES, {}).findings)


def test_a_collective_of_some_ranks_is_found_where_it_was_called_though_the_hang_shows_later() -> None:
    """The extra call of rank 0 is paired with the next one of rank 1, and everything after it is out of step."""
    same = call("all_reduce", 1, line(10))
    extra = call("all_reduce", 2, line(12, 11))
    ends = (
        hung(0, same, extra, call("all_reduce", 3, line(14)), call("barrier", 4, line(16), is_over=False)),
        hung(1, same, call("all_reduce", 2, line(14)), call("barrier", 3, line(16), is_over=False)),
    )
    (finding,) = found(*ends)
    assert (finding.code, finding.ranks) == ("GV812", (0,))
    assert finding.location is not None
    assert finding.location.line == 12
    assert "collective 2 of its process group" in finding.message
    assert "under 'if rank == 0:' (train.py:11)" in finding.message


def test_two_branches_of_one_condition_are_another_order() -> None:
    ends = (
        hung(0, call("all_reduce", 1, line(12, 11), is_over=False)),
        hung(1, call("broadcast", 1, line(15, 11, is_else=True), is_over=False)),
    )
    assert [each.code for each in found(*ends)] == ["GV813"]


def test_other_shapes_at_one_line_are_told_with_the_shapes() -> None:
    ends = (
        hung(0, call("all_reduce", 1, line(12), (3,), is_over=False)),
        hung(1, call("all_reduce", 1, line(12), (5,), is_over=False)),
    )
    (finding,) = found(*ends)
    assert finding.code == "GV814"
    assert "rank 0 gives [3] float, rank 1 gives [5] float" in finding.message.replace("  ", " ")


def test_a_stage_that_waits_for_a_message_of_one_that_left_the_loop_names_it() -> None:
    message = Collective("recv", 5, "p2p", ((2, 4),), ("float32",), line(8), peer=0)
    waiter = RankEnd(1, "hung", 1.0, 4, "", Stand((line(8),), message=message))
    (finding,) = found(hung(0, call("barrier", 1, CodeLine("train.py", 26), is_over=False)), waiter)
    assert (finding.code, finding.ranks) == ("GV811", (0,))
    assert finding.location is not None
    assert finding.location.line == 5
    assert "waits for a message at train.py:8 (recv 5 from rank 0 of [2, 4] float32)" in finding.message


def test_a_rank_that_is_in_its_wrapper_alone_under_a_condition_of_ranks_has_not_left_the_loop() -> None:
    evaluating = CodeLine("train.py", 40, "model(x)", "evaluate", (39, 41))
    called = CodeLine("train.py", 22, "evaluate()", "main", (20, 30), 21, "if rank == 0:")
    alone = RankEnd(0, "hung", 1.0, 3, "", Stand((evaluating, called), WRAPPER))
    calling = CodeLine("train.py", 24, "train()", "main", (20, 30))
    waiter = RankEnd(1, "hung", 1.0, 4, "", Stand((line(14), calling), is_in_backward=True))
    (finding,) = found(alone, waiter)
    assert (finding.code, finding.ranks) == ("GV812", (0,))
    assert "only rank 0 calls the forward of its wrapper at train.py:40, from train.py:22, under" in finding.message
    assert "call the module in the wrapper" in finding.fix


def test_a_loop_that_some_ranks_leave_by_a_break_is_told_with_its_line() -> None:
    at = replace(line(14), exits=((17, "break"),))
    reduced = replace(call("all_reduce", 1, at, is_over=False), is_in_backward=True)
    waiter = RankEnd(0, "hung", 1.0, 4, "", Stand((at,), is_in_backward=True), (reduced,), 1)
    (finding,) = found(waiter, hung(1, call("barrier", 1, CodeLine("train.py", 26), is_over=False)))
    assert finding.code == "GV811"
    assert "'break' at train.py:17" in finding.why
    assert "let all ranks take 'break' in the same step" in finding.fix


def test_a_rank_that_was_aborted_in_its_wrapper_is_out_of_step_though_no_calls_are_known() -> None:
    died = RankEnd(1, "died", backward_calls=1, stand=Stand((line(7),), WRAPPER))
    lost = RankEnd(0, "failed", 1.0, 1, "RuntimeError: Connection reset by peer", Stand((line(7),), WRAPPER))
    (finding,) = found(lost, died)
    assert (finding.code, finding.ranks) == ("GV812", (1,))
    assert "is not known with this torch" in finding.why


def test_a_rank_that_never_came_is_named() -> None:
    (finding,) = found(hung(0, call("barrier", 1, line(12), is_over=False)), size=3)
    assert finding.code == "GV817"
    assert "ranks 1-2 never came" in finding.message


def test_a_rule_can_be_suppressed_by_a_comment_at_its_line() -> None:
    at = CodeLine("train.py", 12, "dist.barrier()  # gradviz: ignore[GV812]", condition=11)
    job = JobCase((hung(0, call("barrier", 1, at, is_over=False)), RankEnd(1)), 5.0, Rank(0, 2, "job"), 2)
    result = job_findings(job, RULES, {})
    assert (result.findings, result.suppressed) == ((), 1)


def test_a_rank_that_died_in_a_collective_of_its_wrapper_did_not_call_what_another_one_did() -> None:
    called = (call("all_reduce", 4, line(8)), call("broadcast", 5, line(12, 11), (8, 4)), call("broadcast", 6, line(7)))
    lost = RankEnd(0, "failed", 1.0, 1, "RuntimeError: Connection reset by peer", Stand((line(7),), WRAPPER), called)
    in_wrapper = RankEnd(1, "died", backward_calls=1, stand=Stand((line(7),), WRAPPER))
    (finding,) = found(lost, in_wrapper)
    assert finding.code == "GV812"
    assert finding.location is not None
    assert finding.location.line == 12
    (finding,) = found(lost, replace(in_wrapper, stand=Stand((line(7),), "broadcast")))
    assert finding.code == "GV814"
    assert "or it did not call broadcast() at train.py:12, as rank 0 did" in finding.why
