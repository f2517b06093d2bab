"""A deep graph that was recorded is freed without a crash, whatever holds it last, and at any time.

Each program runs in a process of its own: what these tests fear is the end of the process.
"""

# Much of torch has no types: backward, register_hook, Function.apply.
# mypy: allow-untyped-calls, no-warn-return-any
from __future__ import annotations

from textwrap import dedent, indent

import pytest

from tests.integration.recording.child import child_result, forked_result

CHAIN = """
import resource

from gradviz.recording.walk import destruction, graph_walker

# Without care, 10,200 nodes overflow this stack; a usual one of 8 MiB needs 41,000, which take four times as long.
resource.setrlimit(resource.RLIMIT_STACK, (2 << 20, resource.getrlimit(resource.RLIMIT_STACK)[1]))
DEEP = 15_000

def chain(start=None, length=DEEP):
    x = torch.ones(1, requires_grad=True) if start is None else start
    for _ in range(length):
        x = x + 1
    return x

def walk(*roots):
    return len(graph_walker.walk([root.grad_fn for root in roots]).wrappers)
"""

PROGRAMS: dict[str, dict[str, str]] = {
    "loss goes first": {
        "walked, then freed": """
            loss = chain(length=50_000).sum()
            assert walk(loss) == 50_002
            del loss
        """,
        "recorded by backward, in a loop that binds the loss again": """
            def program():
                for _ in range(2):
                    loss = chain().sum()
                    loss.backward()

            assert [len(graph.nodes) for graph in record(program).capture.graphs] == [DEEP + 2] * 2
        """,
    },
    "parts are kept": {
        "roots that share it, freed in both orders": """
            for order in (1, -1):
                trunk = chain()
                roots = [chain(trunk, 1_500), chain(trunk, 1_250), trunk.sum()]
                walk(*roots)
                del trunk
                for root in list(range(3))[::order]:
                    roots[root] = None
        """,
        "a tensor kept from its middle": """
            for outer_first in (True, False):
                middle = chain()
                loss = chain(middle).sum()
                walk(loss)
                if outer_first:
                    del loss, middle
                else:
                    del middle, loss
            early = chain(length=12_500)
            held = [early]
            for _ in range(10):
                held.append(chain(held[-1], 1_250))
            walk(held[-1])
            while held:
                held.pop(len(held) // 2)
            del early
        """,
    },
    "it was recorded more than once": {
        "walked twice": """
            loss = chain().sum()
            loss.backward(retain_graph=True)
            walk(loss)
            walk(loss)
            del loss
            trunk = chain()
            left, right = trunk.sum(), chain(trunk, 777)
            walk(left)
            walk(left, right)
            walk(right)
            del trunk, right, left
        """,
        "recorded twice with retain_graph": """
            def program():
                loss = chain().sum()
                loss.backward(retain_graph=True)
                loss.backward()

            assert len(record(program).capture.graphs) == 2
        """,
        "the graph of a gradient": """
            def program():
                x = torch.ones(1, requires_grad=True)
                y = x
                for _ in range(DEEP):
                    y = y * 1.0
                (gradient,) = torch.autograd.grad((y * y).sum(), x, create_graph=True)
                gradient.sum().backward()

            assert len(record(program).capture.graphs) == 2
        """,
    },
    "the stack is small": {
        "walked in a thread with a small stack, and freed there": """
            import threading
            threading.stack_size(1 << 20)

            def work():
                loss = chain(length=8_000).sum()  # 5,100 overflow it
                walk(loss)
                del loss
                done.append(True)

            done = []
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
            assert done
        """,
        "walked here and freed in a thread with a small stack": """
            import threading
            threading.stack_size(1 << 20)
            box = [chain(length=8_000).sum()]
            walk(box[0])
            thread = threading.Thread(target=box.clear)
            thread.start()
            thread.join()
            assert not box
        """,
    },
    "it is no chain": {
        "a recurrent network of 2,500 steps": """
            cell = torch.nn.GRUCell(2, 3)

            def program():
                hidden = torch.zeros(1, 3)
                for _ in range(2_500):
                    hidden = cell(torch.ones(1, 2), hidden)
                loss = hidden.sum()
                loss.backward()

            graph = record(program).graph
            assert len(graph.nodes) > 25_000
        """,
        "wide and deep, with every node used twice": """
            x = torch.ones(1, requires_grad=True)
            before = x
            for _ in range(DEEP):
                x, before = before + x, x
            walk(x)
            del x, before
        """,
        "many deep branches of unequal length": """
            branches = [chain(length=length) for length in range(1_250, 16_250, 2_500)]
            loss = torch.cat(branches).sum()
            walk(loss)
            del branches, loss
        """,
        "functions in Python": """
            class Step(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    return x + 1

                @staticmethod
                def backward(ctx, gradient):
                    return gradient

            x = torch.ones(1, requires_grad=True)
            for _ in range(12_000):
                x = x + 1
            for _ in range(1_000):
                x = Step.apply(x)
            walk(x)
            del x
        """,
    },
    "something failed": {
        "a failed backward": """
            def program():
                loss = chain().exp()
                result = loss.sin()
                loss.add_(1)
                try:
                    result.sum().backward()
                except RuntimeError:
                    pass

            assert record(program).graph.backward.failed_node is not None
        """,
        "a walk that was interrupted half-way": """
            def interrupt(*_):
                raise KeyboardInterrupt

            loss = chain().sum()
            original = destruction.guard_walked_nodes
            destruction.guard_walked_nodes = interrupt
            try:
                walk(loss)
            except KeyboardInterrupt:
                pass
            else:
                raise AssertionError("it was not interrupted")
            destruction.guard_walked_nodes = original
            del loss
        """,
        "a walk that was interrupted while it looked": """
            import signal

            signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            for seconds in (0.01, 0.03, 0.1):
                loss = chain().sum()
                try:
                    signal.setitimer(signal.ITIMER_REAL, seconds)
                    walk(loss)
                except KeyboardInterrupt:
                    pass
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
                del loss
        """,
    },
    "the interpreter ends": {
        "still alive when the interpreter ends": """
            kept = [chain().sum()]
            assert walk(kept[0]) == DEEP + 2
        """,
        "alive in a module that outlives everything when the interpreter ends": """
            sys.kept = chain().sum()
            torch.kept = chain(length=12_000).sum()
            walk(sys.kept), walk(torch.kept)
        """,
    },
}


@pytest.mark.parametrize("occasion", PROGRAMS)
def test_a_deep_graph_is_freed_without_a_crash_when(occasion: str) -> None:
    source = CHAIN
    for words, program in PROGRAMS[occasion].items():
        body = indent(dedent(program).strip("\n"), "    ")
        # Its name is printed first: if the process crashes, this is its last output.
        source += f"\ndef scenario():\n{body}\n\nprint(json.dumps({words!r}), flush=True)\nscenario()\n"
    # A forked process ends without taking its modules apart; to start another takes longer than most of these.
    result = child_result if occasion == "the interpreter ends" else forked_result
    assert result(source + "print(json.dumps('the end'))\n") == "the end"
