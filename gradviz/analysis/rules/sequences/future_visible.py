"""GV643."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, location_of_call, plain_name
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sequences.attention.future_attended import FutureReader
from gradviz.analysis.rules.bases.sequences.future_readers import first_reader
from gradviz.analysis.rules.bases.sequences.shifted_series import compared, shifted_series
from gradviz.analysis.rules.bases.sequences.shifted_tokens import Shifted, is_loss_of_classes, shifted_lookup


class FutureVisible(Rule):
    """A language model, or a forecast, sees what it should predict.

    What it finds
    -------------
    A loss of classes whose targets are the tokens that the model looks up, shifted by one position, or a loss that
    compares a forecast with the values that the model gets, shifted likewise, where a position can read later ones:
    attention without a mask, with a mask that only hides padding, or with a triangle that hides too little or the wrong
    half; a recurrent layer of two directions; a convolution over time with as much padding after the sequence as before
    it, or whose first results are left out instead of the last ones; a product with a matrix of all pairs of positions,
    without a triangle or with the wrong half of it. Attention to another sequence, such as the source of a translation,
    is left alone.

    Why it matters
    --------------
    The answer stands in the input, one position further: the loss falls to nothing, also on held-out text, and the
    model has learned to copy. When it generates, there is nothing to copy from, and it writes nonsense.

    Example
    -------
    tokens = torch.randint(0, 9, (8, 7))
    embed, head = torch.nn.Embedding(9, 8), torch.nn.Linear(8, 9)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    parameters = [*embed.parameters(), *layer.parameters(), *head.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    mask = torch.nn.Transformer.generate_square_subsequent_mask(6)
    for step in range(3):
        logits = head(layer(embed(tokens[:, :-1])))
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, 9), tokens[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    tokens = torch.randint(0, 9, (8, 7))
    embed, head = torch.nn.Embedding(9, 8), torch.nn.Linear(8, 9)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    parameters = [*embed.parameters(), *layer.parameters(), *head.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    mask = torch.nn.Transformer.generate_square_subsequent_mask(6)
    for step in range(3):
        logits = head(layer(embed(tokens[:, :-1]), src_mask=mask))
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, 9), tokens[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV643"
    name = "future_visible"
    severity = "warning"
    yields_to = ("mask_without_effect",)

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        seen, told = set[int | None](), set[int | None]()
        for row, call in enumerate(flow.log.calls):
            if call.call_site in seen or not flow.has_step_after(row):
                continue
            is_of_classes = is_loss_of_classes(call)
            if not is_of_classes and compared(call) is None:
                continue
            seen.add(call.call_site)
            shifted = shifted_lookup(flow, row) if is_of_classes else shifted_series(flow, row)
            reader = None if shifted is None else first_reader(flow, shifted)
            if shifted is not None and reader is not None and flow.log.calls[reader.row].call_site not in told:
                told.add(flow.log.calls[reader.row].call_site)
                yield self._finding(case, shifted, reader)

    def _finding(self, case: Case, shifted: Shifted, reader: FutureReader) -> Finding:
        flow = case.dataflow
        location, loss = location_of_call(flow, reader.row), location_of_call(flow, shifted.loss)
        where = "the next position" if shifted.by == 1 else f"{shifted.by} positions later"
        name = plain_name(flow.log.calls[shifted.loss].function)
        of = "" if name == "sub" else f" of {name}()"
        return self.finding(
            f"{reader.what}, and the targets{of}{at_line(loss) if loss != location else ''} are the "
            f"{'values' if shifted.series else 'tokens'} of {where}: the model reads what it should predict",
            symptom="grad_wrong",
            why="the answer stands in the input, so it only has to be copied; when the model generates, it is missing",
            fix=reader.fix,
            location=location,
            symptom_location=loss if loss != location else location_of_call(flow, shifted.lookup),
            evidence={"positions": max(shifted.lengths), "shifted_by": shifted.by},
        )
