"""The words for the values of an operation's inputs or results in findings."""

from __future__ import annotations

from gradviz.graph.call_log import ValueFacts


def values_in_words(values: ValueFacts) -> str:
    """``32 values from 0 to 4.2 (1 of them 0)``, ``2 values that are all 0``."""
    kinds = ((values.zeros, "0"), (values.nans, "NaN"), (values.infs, "Inf"))
    special = [f"{count:,} of them {what}" for count, what in kinds if count]
    if values.count == 1:
        return "NaN" if values.nans else "Inf" if values.infs else f"{values.minimum:.4g}"
    words = f"{values.count:,} values"
    alike = next((what for count, what in kinds if count == values.count), None)
    if alike is not None:
        return f"{words} that are all {alike}"
    if values.minimum is not None and values.maximum is not None:
        is_one = values.minimum == values.maximum and not special
        one_or_range = "that are all {0:.4g}" if is_one else "from {0:.4g} to {1:.4g}"
        words += f" {one_or_range.format(values.minimum, values.maximum)}"
    return f"{words} ({', '.join(special)})" if special else words
