"""The explanation of an operation for a terminal: formulas, saved tensors, traps, and the numbers of one node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gradviz.analysis.explain.custom_explanation import CheckedInput, CustomExplanation
from gradviz.analysis.explain.explanation import Explanation
from gradviz.formulas.arguments import tensor_arguments
from gradviz.formulas.derivative import Derivative, SecondDerivative
from gradviz.formulas.plain import Reading, Trap, signs_in
from gradviz.graph.number_words import ordinal
from gradviz.graph.query.own_line import file_name
from gradviz.rendering.reports.node_numbers_text import node_numbers_sections
from gradviz.rendering.reports.terminal_tables import printed
from gradviz.rendering.words.common_words import counted, listed
from gradviz.rendering.words.value_words import number_words
from gradviz.safe_text import one_line

Row = tuple[str, str]
MAX_VARIANTS = 4


@dataclass(frozen=True, slots=True)
class ExplanationText:
    """The appearance of an explanation."""

    width: int
    color: bool = False

    def text(self, page: Explanation) -> str:
        """The whole explanation."""
        return printed(_parts(page), self.width, color=self.color)


def _parts(page: Explanation) -> Iterator[RenderableType]:
    yield Text(page.node or page.word, style="bold")
    if page.sentence:
        yield Text(page.sentence)
    for title, rows in _sections(page):
        yield Text()
        yield Text(title, style="bold")
        yield Padding(_grid(rows), (0, 0, 0, 2))
    if page.disclosures:
        yield Text()
    for sentence in page.disclosures:
        yield Text(f"note: {sentence}", style="yellow")


def _grid(rows: list[Row]) -> Table:
    """Names at the left, their explanations beside them; lines of full width if there are no names."""
    table = Table.grid(padding=(0, 2, 0, 0))
    if any(name for name, _ in rows):
        table.add_column(style="cyan", max_width=26, overflow="fold")
    table.add_column(overflow="fold")
    for name, said in rows:
        # As Text, because rich would read a tensor called x[0] as markup.
        table.add_row(*map(Text, (name, said) if len(table.columns) > 1 else (said,)))
    return table


def _sections(page: Explanation) -> Iterator[tuple[str, list[Row]]]:
    if page.numbers is not None:
        yield from node_numbers_sections(page.numbers, page.derivative)
    if page.custom is not None:
        yield from custom_sections(page.custom)
    if page.calls:
        yield "where it comes from", [("", call) for call in page.calls]
    if page.plain is not None:
        yield "in mathematics", list(_mathematics(page.plain, page.note))
        yield "signs", list(_signs(page.plain))
    if page.special is not None:
        yield "what it does with the gradient", [("", each) for each in page.special.gradients]
    if page.derivative is not None:
        yield from _of_torch(page, page.derivative)
    if page.traps:
        yield "traps", [row for trap in page.traps for row in _trap(trap)]
    if page.others:
        more = [("", f"and {page.others_left_out:,} more")] if page.others_left_out else []
        yield "the same word also means", [*((each.node, each.what) for each in page.others), *more]


def _mathematics(plain: Reading, note: str) -> Iterator[Row]:
    yield from (("", line) for line in _lines(plain))
    if plain.assumes:
        yield "", f"for {plain.assumes}"
    if note:
        yield "", note


def _lines(plain: Reading) -> list[str]:
    return [plain.forward, *plain.gradients.values(), *plain.where]


def _signs(plain: Reading) -> Iterator[Row]:
    yield from ((letter, name) for name, letter in plain.symbols.items() if letter != name and name != "grad")
    yield from ((each.sign, each.meaning) for each in signs_in(" ".join(_lines(plain))))


def _of_torch(page: Explanation, derivative: Derivative) -> Iterator[tuple[str, list[Row]]]:
    rows = [(", ".join(each.inputs), each.formula) for each in derivative.inputs]
    rows += [(name, "none: it has no gradient") for name in derivative.without_gradient]
    rows += [
        (f"result {index}", "has no history: nothing arrives for it")
        for index, is_differentiable in enumerate(derivative.differentiable_outputs)
        if not is_differentiable
    ]
    yield f"gradients, as torch {page.torch_version} computes them", rows
    yield "function", [("", schema) for schema in _schemas(derivative)]
    if page.terms:
        yield "words in these formulas", [(term.word, term.meaning) for term in page.terms]
    forward = [(", ".join(each.outputs), each.formula) for each in derivative.forward]
    yield "forward mode", forward or [("", "torch has none for it")]
    yield "saves for backward", list(_saved(derivative)) or [("", "nothing")]
    yield "differentiable twice", [("", _second_words(derivative.second))]


def _schemas(derivative: Derivative) -> Iterator[str]:
    yield derivative.schema
    if derivative.other_schemas:
        names = [schema.partition("(")[0] for schema in derivative.other_schemas]
        yield f"the same for {listed(names, MAX_VARIANTS)}"


def _saved(derivative: Derivative) -> Iterator[Row]:
    """Tensors, and the gradients for which each is kept; other saved values take little memory."""
    settings = []
    tensors = {each.name for each in tensor_arguments(derivative.schema)}
    for each in derivative.saved:
        if each.expression != each.slot or not (each.of == "result" or each.slot in tensors):
            settings.append(each.expression)
            continue
        yield each.slot, f"for the gradient of {', '.join(derivative.inputs_that_need(each.slot))}"
    if settings:
        yield "", f"and no tensors: {', '.join(settings)}"


def _second_words(second: SecondDerivative) -> str:
    if not second.is_possible:
        return f"no: torch has no derivative for {listed(second.functions)}; a second backward raises"
    if second.functions:
        return f"yes: the formulas call {listed(second.functions)}, for which torch has a derivative again"
    return "yes: the formulas are made of operations that torch can differentiate"


def _trap(trap: Trap) -> Iterator[Row]:
    yield "", trap.sentence
    lines = trap.program.splitlines()
    for line in lines[:-1]:
        yield "", f"    {line}"
    for line in lines[-1:]:
        yield "", f"    {line}  # {trap.shows}"


# The source of a custom function, and whether its backward agrees with its forward.


def custom_sections(page: CustomExplanation) -> Iterator[tuple[str, list[Row]]]:
    """Sections of the explanation, each with its title."""
    name = one_line(file_name(page.file))
    lines = [(str(line.number), line.text) for line in page.lines]
    yield f"source{f' in {name}' if name else ''}", lines or [("", _why_no_source(page))]
    if not all(page.wants_gradient):
        yield (
            "gradients that are wanted",
            [
                (f"{ordinal(index)} input", "wanted" if wants else "not wanted: backward may give None for it")
                for index, wants in enumerate(page.wants_gradient)
            ],
        )
    checks = [(f"{ordinal(check.argument)} input", _words(check)) for check in page.checks]
    checks += [("", sentence) for sentence in page.unchecked]
    yield "backward compared with finite differences of forward", checks or [("", _why_not(page))]


def _why_no_source(page: CustomExplanation) -> str:
    return "the recording does not have it" + ("" if page.file else ": code from exec() or a prompt has no file")


def _why_not(page: CustomExplanation) -> str:
    if page.was_asked_for:
        return "not compared: no call of it by apply() was seen that wanted a gradient"
    return "not compared: gradviz explain WHAT SCRIPT --gradcheck runs the whole script and compares it"


def _words(check: CheckedInput) -> str:
    compared = counted(check.compared, "element")
    if check.given is not None and check.measured is not None:
        given, measured = number_words(check.given), number_words(check.measured)
        return f"WRONG: {given} where the slope of forward is {measured}; {compared} compared"
    if check.verdict == "another on purpose":
        return "not the slope of forward, which returns its input unchanged or is flat: probably on purpose"
    return f"{check.verdict} in {compared}" if check.compared else check.verdict
