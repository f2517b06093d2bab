"""GV880."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import calls_named, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import value_maker
from gradviz.graph.call_log import Call


class StandardizedUnscaled(Rule):
    """Pictures from 0 to 255 are standardized with a mean and a deviation of pictures from 0 to 1.

    What it finds
    -------------
    Pictures that ``(x - mean) / std`` takes as they are, from 0 to more than 100 and at most 255, where all means and
    deviations lie between 0 and 1.

    Why it matters
    --------------
    The well-known numbers, such as 0.485 and 0.229, belong to pictures that were divided by 255. Without that, what
    should lie around zero goes up to 1000: the first steps are far too large, units die or saturate, and a pretrained
    model sees nothing that it knows.

    Example
    -------
    conv = torch.nn.Conv2d(3, 2, 3)
    optimizer = torch.optim.SGD(conv.parameters(), lr=1e-6)
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    for step in range(3):
        pictures = torch.randint(0, 256, (4, 3, 8, 8), dtype=torch.uint8)
        x = (pictures.float() - mean[:, None, None]) / std[:, None, None]
        loss = conv(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    conv = torch.nn.Conv2d(3, 2, 3)
    optimizer = torch.optim.SGD(conv.parameters(), lr=1e-6)
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    for step in range(3):
        pictures = torch.randint(0, 256, (4, 3, 8, 8), dtype=torch.uint8)
        x = (pictures.float() / 255 - mean[:, None, None]) / std[:, None, None]
        loss = conv(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV880"
    name = "standardized_unscaled"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for row, call in calls_named(flow, _DIVIDES):
            if call.call_site in told or call.live_inputs or not flow.has_step_after(row):
                continue
            subtracted = _subtraction(flow, row, call)
            if subtracted is not None:
                told.add(call.call_site)
                yield self._finding(flow, row, subtracted)

    def _finding(self, flow: Dataflow, row: int, subtracted: int) -> Finding:
        location, made = location_of_call(flow, subtracted), location_of_call(flow, row)
        values = flow.values_of(flow.log.calls[subtracted].inputs[0], subtracted)
        largest = 255 if values is None or values.maximum is None else values.maximum
        return self.finding(
            f"pictures from 0 to {largest:.3g} are standardized with a mean and a deviation between 0 and 1: these "
            "numbers belong to pictures from 0 to 1",
            symptom="grad_wrong",
            why="what should lie around zero goes up to a thousand: the first layer drowns in its input",
            fix="divide the pictures first: (pictures.float() / 255 - mean) / std",
            location=location,
            symptom_location=made if made != location else None,
        )


_DIVIDES = frozenset({"div"})
_SUBTRACTS = frozenset({"sub"})
_BOTH = 2
_LARGE, _LARGEST = 100, 255
_CHANNELS = (1, 3)
_PICTURE = 3


def _subtraction(flow: Dataflow, row: int, call: Call) -> int | None:
    """The call that subtracts the mean from pictures, which another call then divides by a deviation."""
    made = value_maker(flow, call.inputs[0].tensor, row) if len(call.inputs) == _BOTH else None
    if made is None or plain_name(made[1].function) not in _SUBTRACTS or len(made[1].inputs) != _BOTH:
        return None
    pictures, mean = made[1].inputs
    if not _is_small(flow, mean.tensor, made[0]) or not _is_small(flow, call.inputs[1].tensor, row):
        return None
    values, shape = flow.values_of(pictures, made[0]), shape_of(flow, pictures.tensor)
    if len(shape) < _PICTURE or values is None or values.minimum is None or values.maximum is None:
        return None
    is_pixels = values.minimum >= 0 and _LARGE < values.maximum <= _LARGEST and values.maximum.is_integer()
    return made[0] if is_pixels else None


def _is_small(flow: Dataflow, tensor: int, row: int) -> bool:
    """Whether it has one number between 0 and 1 for each channel, which is not computed from the pictures."""
    shape, values = shape_of(flow, tensor), flow.values(tensor, row)
    sizes = [size for size in shape if size > 1]
    if values is None or values.minimum is None or values.maximum is None or len(sizes) > 1:
        return False
    return (sizes[0] if sizes else 1) in _CHANNELS and 0 < values.minimum <= values.maximum < 1
