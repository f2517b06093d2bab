"""The planted difference of each pair is the first thing that is named, with its line."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

import gradviz
from gradviz.analysis.diff.difference import Where
from tests.integration.diff import pairs
from tests.integration.diff.pairs import block_step, recorded
from tests.integration.recording.child import forked_result


@dataclass(frozen=True)
class Pair:
    """Two programs, and what is to be named."""

    one: pairs.Step
    other: pairs.Step
    cause: str
    operation: str
    source: str
    """Part of the line."""


PAIRS = {
    "a port with another eps": Pair(
        block_step(), lambda: pairs.by_hand_step(1e-6), "arguments", "layer_norm", "self.ln_1(hidden)"
    ),
    "a transposed weight": Pair(
        block_step(), block_step(is_transposed=True), "only_b", "t", "self.up.weight.copy_(self.up.weight.t()"
    ),
    "a missing scale": Pair(block_step(), block_step(is_scaled=False), "only_a", "div", "scores = scores / 4.0"),
    "an approximate GELU": Pair(
        block_step(), block_step(approximate="tanh"), "arguments", "gelu", "self.act(self.up(x))"
    ),
    "norm after attention": Pair(
        block_step(), block_step(is_post_norm=True), "wiring", "layer_norm", "self.norm(x + self.attention(x))"
    ),
    "dropout left on": Pair(block_step(), block_step(dropout=0.1), "only_b", "dropout", "F.dropout(hidden"),
    "bfloat16 under autocast": Pair(block_step(), pairs.autocast_step, "arguments", "linear", "self.query(x)"),
    "other data from another seed": Pair(
        pairs.seeded_step(1), pairs.seeded_step(2), "random", "randn", "data = torch.randn"
    ),
    "another shuffle": Pair(
        pairs.shuffled_step(1), pairs.shuffled_step(2), "random", "randperm", "order = torch.randperm"
    ),
    "summed in another order": Pair(
        pairs.index_add_step(is_reversed=False),
        pairs.index_add_step(is_reversed=True),
        "only_b",
        "flip",
        "index_add(0, index",
    ),
    "an initialisation with another range": Pair(
        pairs.initialised_step(1.0), pairs.initialised_step(1.1), "arguments", "uniform_", "nn.init.uniform_"
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_the_planted_difference_is_named_first(name: str) -> None:
    pair = PAIRS[name]
    found = gradviz.diff(recorded(pair.one), recorded(pair.other))
    assert not found.same and found.first is not None
    first = found.first
    where = first.b or first.a
    assert isinstance(where, Where)
    assert (first.cause, where.operation) == (pair.cause, where.operation), str(found)
    assert where.operation == pair.operation
    assert pair.source in where.source
    assert where.line is not None and where.file == pairs.__file__
    assert first.what in str(found)


def test_the_same_program_twice_is_the_same_bit_for_bit() -> None:
    found = gradviz.diff(recorded(block_step(dropout=0.1)), recorded(block_step(dropout=0.1)))
    assert found.same and not found
    assert found.first is None and found.difference.rounding is None
    assert found.difference.sentence == "The same: structure, shapes, values and gradients, bit for bit."


def test_a_port_with_other_names_is_the_same_and_the_names_are_told() -> None:
    found = gradviz.diff(recorded(block_step()), recorded(pairs.by_hand_step))
    assert found.same and not found.difference.differing
    assert {change.kind for change in found.changes} <= {"renamed", "wrapped", "moved"}
    assert any("byhand" in change.what for change in found.changes if change.kind == "renamed")


def test_compiled_code_is_the_same_as_the_program_within_rounding() -> None:
    eager = recorded(block_step())
    found = gradviz.diff(eager, recorded(pairs.compiled_step()))
    assert found.same
    assert [change.what for change in found.changes if change.kind == "compiled"] == [
        "14 operations of A are compiled code in B"
    ]
    planted = gradviz.diff(eager, recorded(pairs.compiled_step(eps=1e-2)))
    assert planted.first is not None and planted.first.b is not None
    assert planted.first.what == (
        "the compiled code of B gives another result than the 14 operations in its place, for the same inputs"
    )
    assert planted.first.b.source == "return torch.compile(model, backend=backend)(x).square().mean()"


@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler")
def test_what_inductor_compiles_is_the_same_within_rounding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", os.fspath(tmp_path))
    same, sentence, compiled, first = forked_result(
        """
import gradviz
from tests.integration.diff.pairs import block_step, compiled_step, recorded

compiled = recorded(compiled_step("inductor"))
found = gradviz.diff(recorded(block_step()), compiled)
planted = gradviz.diff(recorded(block_step(eps=1e-2)), compiled)
compiled = [change.what for change in found.changes if change.kind == "compiled"]
print(json.dumps([found.same, found.difference.sentence, compiled, planted.first.what]))
"""
    )
    assert same and compiled == ["14 operations of A are compiled code in B"], sentence
    assert first.startswith("the compiled code of B gives another result than the 14 operations in its place")


def test_another_number_of_threads_is_named_as_the_reason() -> None:
    def with_threads(threads: int) -> gradviz.Recording:
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            return recorded(pairs.threads_step(threads))
        finally:
            torch.set_num_threads(before)

    one = with_threads(1)
    found = next((each for n in (2, 3, 4, 8) if (each := gradviz.diff(one, with_threads(n))).difference.rounding), None)
    if found is None:
        pytest.skip("this machine adds up alike with any number of threads")
    rounding = found.difference.rounding
    assert rounding is not None and rounding.a is not None and rounding.a.operation in ("mean", "sum")
    assert "reduced in another order (1 thread in A, " in (rounding.reason or "")
    assert any("another setting: 1 thread in A" in sentence for sentence in found.difference.disclosures)


def test_the_order_in_which_threads_of_the_program_end_is_named_first() -> None:
    found = gradviz.diff(recorded(pairs.workers_step((0, 1, 2))), recorded(pairs.workers_step((2, 0, 1))))
    assert found.first is not None and found.first.a is not None and found.first.reason == "reduced in another order"
    assert found.first.what == "cat takes the same tensors in another order"
    assert found.first.a.source.endswith("index_add(0, rows, torch.cat(parts)).square().mean()")


def test_a_layer_of_hugging_face_is_the_same_as_one_written_by_hand() -> None:
    transformers = pytest.importorskip("transformers")
    from transformers.models.bert.modeling_bert import BertLayer

    config = transformers.BertConfig(
        hidden_size=16,
        num_attention_heads=2,
        intermediate_size=32,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        attn_implementation="eager",
    )
    torch.manual_seed(0)
    layer = BertLayer(config)  # type: ignore[no-untyped-call]
    data = torch.randn(2, 5, 16)

    def recorded_with(module: torch.nn.Module) -> gradviz.Recording:
        module.zero_grad()
        with gradviz.record(fingerprints=True) as recording:
            result = module(data)
            (result[0] if isinstance(result, tuple) else result).square().mean().backward()
        return recording

    def by_hand(eps: float) -> gradviz.Recording:
        written = pairs.HandWrittenLayer(16, 32, 2, eps)
        written.copy_from(layer)
        return recorded_with(written)

    original = recorded_with(layer)
    found = gradviz.diff(original, by_hand(config.layer_norm_eps))
    assert found.same and not found.difference.differing, str(found)
    assert "bit for bit, apart from 7 changes of names and order and 10 operations" in found.difference.sentence
    assert any(change.what == "view in A, unflatten in B, with the same result" for change in found.changes)
    planted = gradviz.diff(original, by_hand(1e-5))
    assert planted.first is not None and planted.first.b is not None
    assert (planted.first.cause, planted.first.b.operation) == ("arguments", "layer_norm")
    assert planted.first.b.source == "x = self.after_attention(self.mix(mixed) + x)"
    assert "eps is 1e-12 in A, 1e-05 in B" in planted.first.what


def test_one_changed_element_in_a_million_is_seen() -> None:
    def step(index: int | None) -> gradviz.Recording:
        torch.manual_seed(0)
        weight = torch.nn.Parameter(torch.randn(1_000_000))
        if index is not None:
            with torch.no_grad():
                weight[index] += 1.0
        with gradviz.record(fingerprints=True) as recording:
            weight.sigmoid().mean().backward()  # type: ignore[no-untyped-call]
        return recording

    found = gradviz.diff(step(None), step(123_456))
    assert found.first is not None and found.first.cause == "input"
    assert "weight" in found.first.what
    assert found.first.distance == pytest.approx(1e-3, rel=0.02)


def test_a_difference_that_grows_from_the_last_bits_is_told_as_growth() -> None:
    def step(scale: float) -> gradviz.Recording:
        torch.manual_seed(0)
        with gradviz.record(fingerprints=True) as recording:
            x = torch.randn(1_000, requires_grad=True)
            total = pairs.LastBits.apply(x.sigmoid(), scale)  # type: ignore[no-untyped-call]
            for _ in range(40):
                total = 3.9 * total * (1 - total)  # every step roughly doubles what is different
            total.sum().backward()
        return recording

    found = gradviz.diff(step(1.0), step(1.0 + 2.0**-23))
    assert not found.same and found.first is not None and found.first.cause in ("rounding", "arguments")


def test_captures_without_fingerprints_are_compared_in_what_they_have() -> None:
    def step(scale: float) -> gradviz.Recording:
        torch.manual_seed(0)
        with gradviz.record() as recording:
            x = torch.randn(4, requires_grad=True)
            (x.exp() * scale).sum().backward()  # type: ignore[no-untyped-call]
        return recording

    assert gradviz.diff(step(1.0), step(1.0)).same
    found = gradviz.diff(step(1.0), step(2.0))
    assert not found.same and found.first is not None and found.first.cause == "backward"
    assert any("no log of torch calls" in sentence for sentence in found.difference.disclosures)


@pytest.mark.parametrize("given", [3, None])
def test_what_is_no_recording_is_refused_in_one_line(given: Any) -> None:
    with pytest.raises(gradviz.BadInput, match="takes recordings or paths of their files"):
        gradviz.diff(given, given)


def test_findings_that_are_new_or_gone_are_told_where_both_were_logged() -> None:
    def step(is_cut: bool, is_logged: bool = True) -> gradviz.Recording:
        torch.manual_seed(0)
        first, last = torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)
        with gradviz.record(fingerprints=is_logged) as recording:
            hidden = first(torch.ones(2, 4))
            last(hidden.detach() if is_cut else hidden).sum().backward()
        return recording

    def told(found: Any) -> list[str]:
        return [change.what for change in found.changes if change.kind == "finding" and "GV101" in change.what]

    assert [what.partition(":")[0] for what in told(gradviz.diff(step(False), step(True)))] == ["new finding in B"]
    assert [what.partition(":")[0] for what in told(gradviz.diff(step(True), step(False)))] == ["finding gone in B"]
    assert told(gradviz.diff(step(True), step(True))) == []
    disclosures = gradviz.diff(step(True, is_logged=False), step(True)).difference.disclosures
    assert any("findings were not compared" in sentence for sentence in disclosures)


def test_a_bias_of_zeros_that_is_left_out_is_told_although_the_values_are_the_same() -> None:
    def step(has_bias: bool) -> gradviz.Recording:
        torch.manual_seed(0)
        weight, bias = torch.nn.Parameter(torch.randn(3, 3)), torch.nn.Parameter(torch.zeros(3))
        with gradviz.record(fingerprints=True) as recording:
            torch.nn.functional.linear(torch.ones(2, 3), weight, bias if has_bias else None).sum().backward()  # type: ignore[no-untyped-call]
        return recording

    found = gradviz.diff(step(True), step(False))
    assert not found.same and found.first is not None
    assert "only in A, linear takes 1 more parameter" in found.first.what


def linears(change: Callable[[torch.Tensor], Any], *, has_grad: bool = True) -> gradviz.Recording:
    torch.manual_seed(0)
    first, last = torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)
    with gradviz.record(fingerprints=True) as recording:
        with torch.set_grad_enabled(has_grad):
            hidden = first(torch.ones(2, 4))
        last(change(hidden)).sum().backward()
    return recording


def test_a_path_of_the_gradient_that_is_cut_is_a_difference_although_all_values_are_the_same() -> None:
    whole = linears(lambda hidden: hidden)
    for other, what in (
        (linears(lambda hidden: hidden.detach()), "only B has detach"),
        (linears(lambda hidden: hidden, has_grad=False), "linear runs under no_grad only in B"),
    ):
        found = gradviz.diff(whole, other)
        assert not found.same and found.first is not None and found.first.what.startswith(what)
        assert "a gradient reaches first.weight and first.bias only in A" in [change.what for change in found.changes]
        assert "the results of all operations that both have are the same, bit for bit" in found.difference.sentence


@pytest.mark.parametrize(
    "change",
    [
        lambda hidden: hidden.contiguous().view(2, 2, 2).reshape(2, 4),
        lambda hidden: torch.nn.functional.dropout(hidden, 0.0),
        lambda hidden: torch.nn.functional.dropout(hidden, 0.5, training=False),
        lambda hidden: hidden.to(torch.float32).unsqueeze(0).squeeze(0),
    ],
)
def test_operations_that_change_no_value_are_told_and_are_no_difference(
    change: Callable[[torch.Tensor], Any],
) -> None:
    found = gradviz.diff(linears(lambda hidden: hidden), linears(change))
    assert found.same and not found.difference.differing, str(found)
    assert {each.kind for each in found.changes} == {"form"}
    assert "no value" in found.difference.sentence
