"""What gradviz says to a person has one form and plain words, wherever it is written."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest

from tests.messages import Message, all_messages

# Words that say nothing, blame, or hide what is meant.
_UNCLEAR = re.compile(
    r"\b(invalid|illegal|bogus|bad|fatal|oops|sorry|unfortunately|simply|just(?! above)|obviously|easily|magic|etc)\b"
    r"|\b(e\.g|i\.e)\.|n't\b",
    re.IGNORECASE,
)
_NOT_OURS = ("Invalid enum", "Can't call numpy() on Tensor", r"invalid gradient at index (\d+)", r"\b(nan|inf|")
# Words such as GraphML and PDF are names as well.
_NAMES = re.compile(r"Dynamo\b|Graphviz\b|Lightning\b|Python\b|[A-Z]\w*[A-Z]")
_OF_A_VALUE = re.compile(r"\b(unknown|no such|not a|not an|neither|cannot read|cannot write)\b")


@pytest.fixture(scope="module")
def messages() -> list[Message]:
    found = all_messages()
    assert {"error", "hint", "help", "why", "fix", "text"} <= {message.kind for message in found}
    return found


def of_kinds(messages: Iterable[Message], *kinds: str) -> list[Message]:
    return [message for message in messages if message.kind in kinds]


def test_errors_and_findings_are_phrases_without_a_capital_and_a_full_stop(messages: list[Message]) -> None:
    for message in of_kinds(messages, "error", "hint", "message", "why", "fix"):
        assert message.text[-1] not in ".!", message
        assert not message.text[0].isupper() or _NAMES.match(message.text), message


def test_what_an_option_does_is_told_in_sentences(messages: list[Message]) -> None:
    for message in of_kinds(messages, "help", "short_help"):
        assert not message.text[0].islower() or message.text.startswith(("auto:", "json")), message
        assert message.text[-1] in ".:", message


def test_an_error_about_a_value_shows_the_value(messages: list[Message]) -> None:
    about_values = [each for each in of_kinds(messages, "error") if _OF_A_VALUE.search(each.text)]
    assert len(about_values) > 50
    assert [str(each) for each in about_values if "{" not in each.text] == []


def test_words_are_plain(messages: list[Message]) -> None:
    unclear = [each for each in messages if _UNCLEAR.search(re.sub(r"{.*?}", "", each.text))]
    assert [str(each) for each in unclear if not each.text.startswith(_NOT_OURS)] == []


def test_whoever_reads_of_a_defect_is_told_what_to_do(messages: list[Message]) -> None:
    asked = [each for each in messages if re.search(r"\bplease\b", each.text)]
    assert asked
    assert [str(each) for each in asked if "please report" not in each.text] == []
