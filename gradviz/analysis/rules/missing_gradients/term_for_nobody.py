"""GV118."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.cuts.untaught_terms import UntaughtTerm, untaught_terms
from gradviz.analysis.dataflow.call_words import at_line, call_words, line_in_function_of
from gradviz.analysis.dataflow.tensor_words import names_of, optimizer_words
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.rule import Rule


class TermForNobody(Rule):
    """A term of the loss goes through another model and stops there, so no step follows from it.

    What it finds
    -------------
    Two models with an optimizer each. A term of the loss of one asks the other model about results that were detached
    (or made under ``no_grad``, or taken from a pool that keeps ``.data``): it reaches at most the other model, which is
    frozen, or whose gradients are cleared before its own optimizer steps. Terms from which the other model learns are
    left alone, and losses in which anything else goes through the other model to what steps.

    Why it matters
    --------------
    The value of the term is in the loss and in the logs, and no step follows from it: a generator whose adversarial
    term is computed with detached samples only learns from its other terms.

    Example
    -------
    generator, critic = torch.nn.Linear(4, 2), torch.nn.Linear(2, 1)
    for_generator = torch.optim.SGD(generator.parameters(), lr=0.01)
    for_critic = torch.optim.SGD(critic.parameters(), lr=0.01)
    for step in range(3):
        x, real = torch.randn(8, 4), torch.randn(8, 2)
        made = generator(x)
        shown = made.detach()
        for_critic.zero_grad()
        (critic(shown).mean() - critic(real).mean()).backward()
        for_critic.step()
        for_generator.zero_grad()
        distance = (made - x[:, :2]).square().mean()
        (distance - critic(shown).mean()).backward()
        for_generator.step()

    Instead
    -------
    generator, critic = torch.nn.Linear(4, 2), torch.nn.Linear(2, 1)
    for_generator = torch.optim.SGD(generator.parameters(), lr=0.01)
    for_critic = torch.optim.SGD(critic.parameters(), lr=0.01)
    for step in range(3):
        x, real = torch.randn(8, 4), torch.randn(8, 2)
        made = generator(x)
        shown = made.detach()
        for_critic.zero_grad()
        (critic(shown).mean() - critic(real).mean()).backward()
        for_critic.step()
        for_generator.zero_grad()
        distance = (made - x[:, :2]).square().mean()
        (distance - critic(made).mean()).backward()
        for_generator.step()
    """

    code = "GV118"
    name = "term_for_nobody"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        told = set[Location | None]()
        for term in untaught_terms(case.histories, case.gradient_events):
            finding = self._finding(case, term)
            if case.histories.reached.issuperset(term.wanted) and finding.location not in told:
                told.add(finding.location)
                yield finding

    def _finding(self, case: Case, term: UntaughtTerm) -> Finding:
        flow, histories = case.dataflow, case.histories
        cut = case.location_of_site(term.cut.call_site)
        use = location_of_line(line_in_function_of(flow, term.entry, term.cut.call))
        optimizer = flow.log.calls[term.step].optimizer
        stepping = "the optimizer" if optimizer is None else optimizer_words(flow.log.optimizers[optimizer])
        is_switch = term.cut.kind in ("no_grad", "inference")
        cutter = "gradients were off" if is_switch else call_words(flow.log.calls[term.cut.call])
        here, there = (use, cut) if term.is_cut_for_another else (cut, use)
        wanted, passed = histories.together(term.wanted), histories.together(term.passed)
        return self.finding(
            f"{wanted} {'gets' if len(term.wanted) == 1 else 'get'} nothing from a term of the loss in all "
            f"{term.times:,} recorded steps of {stepping}: it is computed with {passed}, from results without history "
            f"({cutter}{at_line(cut)})",
            symptom="grad_none",
            why="the model that the term reaches is frozen there, or its gradients are cleared before a step uses them",
            fix="compute this term with the result as it was before the cut, and cut only what the loss of the other "
            "model gets",
            location=here,
            symptom_location=there if there != here else None,
            tensors=names_of(flow, term.wanted),
            evidence={"steps": term.times, "parameters": len(term.wanted)},
        )
