"""Threads of gradviz are told from threads of the program."""

from __future__ import annotations

from _thread import get_ident

import pytest

from gradviz.recording.forward.forward_log import ForwardLog
from gradviz.recording.torch_access.own_thread import is_own, result_of_own_thread


def test_what_a_thread_of_gradviz_computes_is_in_no_log_of_the_program() -> None:
    log = ForwardLog()

    def work() -> int:
        thread = get_ident()
        assert is_own(thread)
        log.of_thread(thread)
        return thread

    used = result_of_own_thread(work)
    assert not is_own(used)
    assert used not in log.threads
    log.of_thread(get_ident())
    assert list(log.threads) == [get_ident()]


def test_a_thread_that_failed_belongs_to_the_program_again() -> None:
    seen = []

    def fail() -> None:
        seen.append(get_ident())
        raise ValueError

    with pytest.raises(ValueError):
        result_of_own_thread(fail)
    assert not is_own(*seen)
