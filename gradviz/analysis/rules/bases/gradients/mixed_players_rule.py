"""What is told of two players, as of a generator and its judge, whose gradients one step adds up."""

from __future__ import annotations

from gradviz.analysis.dataflow.call_words import at_line, line_in_function_of, location_of_call
from gradviz.analysis.dataflow.tensor_words import names_of, optimizer_words
from gradviz.analysis.finding import Finding, location_of_line
from gradviz.analysis.gradients.gradients_of_players import PlayersMixed
from gradviz.analysis.gradients.leftover_gradients import Leftover, Opposed
from gradviz.analysis.parameters.creation_lines import line_apart
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.requests import Request


class MixedPlayersRule(Rule):
    """Has the findings on them."""

    def leftover(self, histories: ParameterHistories, leftover: Leftover) -> Finding:
        """What is told of gradients that the backward of another player left."""
        flow = histories.flow
        left, cleared = location_of_call(flow, leftover.backward), location_of_call(flow, leftover.own)
        if left == cleared:
            left = location_of_line(line_apart(flow, leftover.backward, leftover.own))
        return self.finding(
            f"{leftover.times:,} steps of {histories.together(leftover.tensors)} also use gradients that the "
            f"backward{at_line(left)} left there: it trained what comes before them, and nothing cleared them since",
            symptom="grad_wrong",
            why="backward() adds to .grad, so two losses are mixed that have opposite aims at times",
            fix="call zero_grad() of their own optimizer right before this backward()"
            + (f", not only{at_line(location_of_call(flow, leftover.clear))}" if leftover.clear is not None else ""),
            location=cleared,
            symptom_location=left,
            tensors=names_of(flow, leftover.tensors),
            evidence={"steps": leftover.times, "parameters": len(leftover.tensors)},
        )

    def opposed(self, histories: ParameterHistories, opposed: Opposed, asked: Request) -> Finding:
        """What is told of gradients of a loss that asks the opposite."""
        flow = histories.flow
        judged, own = opposed.pairs[-1]
        names, next_to = histories.together(opposed.tensors), location_of_call(flow, own)
        return self.finding(
            f"{len(opposed.pairs):,} steps of {names} also use the gradients of this loss, though it trains what "
            f"{optimizer_words(flow.log.optimizers[opposed.other])} holds, and asks the opposite of the loss"
            f"{at_line(next_to)}",
            symptom="grad_wrong",
            why="what they compute goes into this loss with its history, backward() adds to .grad, and nothing clears "
            "them before the next backward()",
            fix="detach() here what they compute: discriminator(fake.detach()); or call zero_grad() of their own "
            f"optimizer right before the backward(){at_line(next_to)}",
            location=location_of_line(line_in_function_of(flow, asked.before, judged)),
            symptom_location=next_to,
            tensors=names_of(flow, opposed.tensors),
            evidence={"steps": len(opposed.pairs), "parameters": len(opposed.tensors)},
        )

    def mixed(self, histories: ParameterHistories, mixed: PlayersMixed) -> Finding:
        """What is told of the gradients of two losses in one step."""
        flow = histories.flow
        own, passing = location_of_call(flow, mixed.own), location_of_call(flow, mixed.passing)
        is_one, is_last = mixed.own == mixed.passing, mixed.passing > mixed.own
        parts = (
            "of this loss, which only goes through them to train what comes before, and of their own "
            f"loss{at_line(own)}"
            if is_last
            else f"of the loss here, and of {'another term of it' if is_one else f'that{at_line(passing)}'}, which "
            "only goes through them to train what comes before"
        )
        return self.finding(
            f"{mixed.times:,} steps of {histories.together(mixed.tensors)} use the sum of two gradients: {parts}",
            severity="warning",
            symptom="grad_wrong",
            why="two optimizers have them and what comes before, so both are to be trained apart; but one backward() "
            "computes the gradients of both losses"
            if is_one
            else "their own loss does not train what comes before, so both are to be trained apart; but backward() "
            "adds to .grad, and both ran before the step",
            fix="call backward() and step() for their own loss, and only then compute the other loss"
            if is_one
            else "call step() of their own optimizer right after their own backward(), before this loss is computed"
            if is_last
            else "call zero_grad() of their own optimizer right before this backward()",
            location=passing if is_last else own,
            symptom_location=None if is_one else own if is_last else passing,
            tensors=names_of(flow, mixed.tensors),
            evidence={"steps": mixed.times, "parameters": len(mixed.tensors)},
        )
