"""Runs a script with `CallLog` listening, and writes down what there is when it ends and when the process does.

The two moments differ: at the script's end the recorder is still there, and the program must not notice; at the end of
the process nothing of it may be left.
"""

from __future__ import annotations

import atexit
import json
import os
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any

from tests.harmless import surroundings
from tests.harmless.call_log import CallLog
from tests.harmless.own_code import is_own_file

AT_THE_END, AT_EXIT = "end.json", "exit.json"

_SECONDS_TO_END = 3.0


def examine(namespace: dict[str, Any]) -> None:
    """Run the script that ``sys.argv`` names in `namespace`, that of the main module; raises what the script raises."""
    _, folder, script, *arguments = sys.argv
    sys.argv[:] = [script, *arguments]
    sys.path[0] = str(Path(script).parent)
    for name in [name for name in namespace if not name.startswith("__")]:
        del namespace[name]
    namespace.update(__file__=script, __doc__=None)
    log = CallLog()
    report = _Report(Path(folder), log)
    atexit.register(report.at_exit)
    random.seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)
    code = compile(Path(script).read_text(encoding="utf-8"), script, "exec", dont_inherit=True)
    try:
        with log.listening():
            exec(code, namespace)
    except BaseException:
        report.has_failed = True
        raise
    finally:
        report.at_the_end(namespace)


class _Report:
    def __init__(self, folder: Path, log: CallLog) -> None:
        self._folder = folder
        self._log = log
        self._process = os.getpid()
        self.has_failed = False

    def at_the_end(self, namespace: dict[str, Any]) -> None:
        """The script is over; its variables are all there."""
        if os.getpid() != self._process:
            return  # a child that the script forked
        facts = {"peak memory": surroundings.peak_memory(), **self._facts()}
        facts["calls"] = self._log.calls
        if "torch" in sys.modules:
            from tests.harmless.describing import describe

            facts["objects"] = describe(_variables(namespace))
        self._write(AT_THE_END, facts)

    def at_exit(self) -> None:
        """The process is about to end; the recorder, if there was one, has."""
        if os.getpid() != self._process:
            return
        _wait_for_ending_threads()
        facts = self._facts(is_exit=True)
        if "torch" in sys.modules:
            facts["left in torch"] = surroundings.leftover_facts(sys.modules["torch"])
        self._write(AT_EXIT, facts)

    def _facts(self, *, is_exit: bool = False) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "random state": surroundings.random_facts(),
            "Python": surroundings.python_facts(),
            # The main program is then the command again.
            **({} if is_exit else {"main program": surroundings.main_program_facts()}),
        }
        if "torch" in sys.modules:
            torch = sys.modules["torch"]
            facts["torch"] = surroundings.torch_facts(torch)
            # After an uncaught exception Python itself keeps every frame, and what it holds, for debuggers.
            if not self.has_failed:
                facts["memory"] = surroundings.memory_facts(torch, with_fake=is_exit)
        return facts

    def _write(self, name: str, facts: dict[str, Any]) -> None:
        (self._folder / name).write_text(json.dumps(facts))


def _wait_for_ending_threads() -> None:
    """Threads that were told to end as the process ends, such as the monitor of tqdm, get the time that this takes.

    Without this it is chance whether such a thread is still there, with gradviz and without.
    """
    end = time.monotonic() + _SECONDS_TO_END
    for thread in threading.enumerate():
        if thread.daemon:
            thread.join(max(0.0, end - time.monotonic()))


def _variables(namespace: dict[str, Any]) -> dict[str, Any]:
    """The script's variables, and those of modules of its own."""
    found = {name: value for name, value in namespace.items() if not name.startswith("__")}
    for name, module in sorted(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name != "__main__" and file is not None and is_own_file(file):
            found.update({f"{name}.{key}": value for key, value in vars(module).items() if not key.startswith("__")})
    return found
