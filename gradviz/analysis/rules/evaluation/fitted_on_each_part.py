"""GV955."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, two_lines
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.evaluations.coded_parts import coded_classes, coded_parts
from gradviz.analysis.rules.bases.evaluations.standardized_parts import OwnMean, standardized_apart
from gradviz.analysis.rules.bases.sources.fitted_parts import FittedTwice, fitted_twice
from gradviz.analysis.rules.bases.sources.lines_that_ran import LinesThatRan
from gradviz.analysis.rules.bases.sources.own_files import own_files


class FittedOnEachPart(Rule):
    """A scaler or an encoder is fitted once more, to the part of the data that was held out.

    What it finds
    -------------
    Two calls of ``fit_transform()``, of one object or of two objects of one class, or of a function that standardizes
    what it is given, with the two parts of one split
    (``train_test_split()``, or ``x[:n]`` and ``x[n:]``), in a program that trains. Also what numbers the categories in
    what it is given (``np.unique(..., return_inverse=True)``, ``pd.factorize()``, ``.cat.codes``, or a look-up in
    ``sorted(set(...))``, also in a function that other functions call), where an embedding is trained with the numbers
    of one part, and scored with those of another one; and labels that are numbered in this way, where those of one part
    have more classes. And two parts of one table of which each is standardized with its own mean, one for training and
    one for the score; windows, of which each has its own level, are left alone.

    Why it matters
    --------------
    The second fit has other means and other codes: a value of the held-out part is no longer what the same value was in
    the training. The score is that of a model on inputs that it was not trained for.

    Example
    -------
    class Scaler:
        def fit_transform(self, x):
            self.mean, self.std = x.mean(0), x.std(0)
            return self.transform(x)
        def transform(self, x):
            return (x - self.mean) / self.std

    data = 3 * torch.randn(60, 4) + 5
    x, held_out = data[:48], data[48:]
    scaler = Scaler()
    x = scaler.fit_transform(x)
    held_out = scaler.fit_transform(held_out)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        loss = (model(x) - x[:, :1]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    class Scaler:
        def fit_transform(self, x):
            self.mean, self.std = x.mean(0), x.std(0)
            return self.transform(x)
        def transform(self, x):
            return (x - self.mean) / self.std

    data = 3 * torch.randn(60, 4) + 5
    x, held_out = data[:48], data[48:]
    scaler = Scaler()
    x = scaler.fit_transform(x)
    held_out = scaler.transform(held_out)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        loss = (model(x) - x[:, :1]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV955"
    name = "fitted_on_each_part"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        for file, tree in own_files(case) if case.histories.reached_by else ():
            ran = LinesThatRan(case.dataflow, file)
            for fitted in fitted_twice(tree):
                # What a model computed is no data: a loss may standardize two views of a batch.
                rows = ran.rows_in(fitted.line, fitted.line)
                if not any(case.dataflow.log.calls[row].live_inputs for row in rows):
                    yield self._finding(file, fitted)
        for parts in (*coded_parts(case), *coded_classes(case)):
            what = (
                "classes of the labels"
                if parts.table is None
                else f"categories that {case.tensor_name(parts.table)} looks up"
            )
            yield self.finding(
                f"the {what} are numbered anew for each part of the data: once for the training, and once more for the "
                "part that the model is scored on",
                symptom="none",
                why="a category gets the number of its place among those that occur in a part, which is another one "
                "where some are missing",
                fix="number the categories once, by those of the training, and look up their numbers for both parts",
                location=parts.coded,
            )
        apart = standardized_apart(case)
        if apart is not None:
            yield self._standardized(case, *apart)

    def _standardized(self, case: Case, trained: OwnMean, scored: OwnMean) -> Finding:
        location, other = two_lines(case.dataflow, scored.mean, trained.mean)
        return self.finding(
            f"rows {scored.part.first:,} to {scored.part.end - 1:,} of the data, which the model is scored on, are "
            f"standardized with their own mean, and those that it is trained on with another one{at_line(other)}",
            symptom="none",
            why="the same value then is another input where the model is scored than where it was trained",
            fix="standardize both parts with the mean and the deviation of the part for training",
            location=location,
            symptom_location=other,
        )

    def _finding(self, file: str, fitted: FittedTwice) -> Finding:
        is_same_line = fitted.line == fitted.first_line
        return self.finding(
            f"{fitted.function}() fits to {fitted.name} what was fitted to {fitted.other} already"
            f"{'' if is_same_line else f' at line {fitted.first_line}'}: the two parts of one split are scaled or "
            "coded in two ways",
            symptom="none",
            why="the same value then is another input where the model is scored than where it was trained",
            fix="fit it to the part for training only, and call transform() for the other one",
            location=Location(file, fitted.line),
            symptom_location=None if is_same_line else Location(file, fitted.first_line),
        )
