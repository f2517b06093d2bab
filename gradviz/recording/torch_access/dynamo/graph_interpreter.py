"""Runs a traced graph node by node."""

from __future__ import annotations

from typing import Any

from torch import fx


class GraphInterpreter(fx.Interpreter):
    """`fx.Interpreter` without a progress bar: for that, its `run` starts a thread that never ends (`tqdm_monitor`)."""

    def run(self, *args: Any, initial_env: dict[fx.Node, Any] | None = None, enable_io_processing: bool = True) -> Any:
        self.env = initial_env if initial_env is not None else {}
        self.args_iter = iter(self.graph.process_inputs(*args) if enable_io_processing else args)
        for node in self.graph.nodes:
            if node not in self.env:
                self.env[node] = self.run_node(node)
            if node.op == "output":
                break
            if self.garbage_collect_values:
                for used_up in self.user_to_last_uses.get(node, ()):
                    del self.env[used_up]
        result = self.env[node]
        return self.graph.process_outputs(result) if enable_io_processing else result
