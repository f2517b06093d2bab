"""Keywords say what to show; a wrong one is one clear line."""

from __future__ import annotations

from typing import Any

import pytest

from gradviz.errors import BadInput
from gradviz.view.keywords import KEYWORDS, view_options


def test_keywords_end_up_in_the_options_they_belong_to() -> None:
    options = view_options({"depth": 2, "plumbing": True, "hide": "dropout", "group_by": "line", "path": ["x", "loss"]})
    assert (options.fold.depth, options.fold.show_plumbing, options.group_by) == (2, True, "line")
    assert (options.select.hide, options.select.path) == (("dropout",), ("x", "loss"))


def test_none_is_the_same_as_nothing() -> None:
    assert view_options(dict.fromkeys(KEYWORDS)) == view_options({})


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"dept": 3}, "there is no option 'dept'; did you mean 'depth'"),
        ({"depth": -1}, "depth=-1 is not a whole number from 0 on"),
        ({"depth": True}, "depth=True is not a whole number"),
        ({"max_items": 0}, "max_items=0 is not a whole number from 1 on"),
        ({"show_all": 1}, "show_all=1 is neither True nor False"),
        ({"unfold": 3}, "unfold=3 is neither text nor a list of texts"),
        ({"path": "loss"}, "path='loss' does not have two names"),
        ({"around": 3}, "around=3 is not text"),
        ({"group_by": "modul"}, "did you mean 'module'"),
        ({"hide": "("}, "unterminated"),
    ],
)
def test_a_wrong_keyword_is_one_clear_line(keywords: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput) as refusal:
        view_options(keywords)
    assert words in str(refusal.value)
