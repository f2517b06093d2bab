"""Names of files in captures of any operating system."""

from __future__ import annotations

import pytest

from gradviz.graph.query.own_line import file_name


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/home/me/train.py", "train.py"),
        ("C:\\me\\train.py", "train.py"),
        ("src\\udders.py", "udders.py"),
        ("train.py", "train.py"),
        ("/home/me/m\\udce4in.py", "m\\udce4in.py"),
    ],
)
def test_the_name_of_a_file_is_the_last_part_of_its_path(path: str, name: str) -> None:
    assert file_name(path) == name
