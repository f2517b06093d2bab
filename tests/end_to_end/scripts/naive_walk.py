"""Runs a script, then counts the graph of one of its variables in the most direct way.

``naive_walk.py VARIABLE SCRIPT [ARGUMENTS]`` prints as JSON how many nodes and edges it has, how many of each name, and
the sizes of its leaves.
"""

import json
import os
import runpy
import sys
from collections import Counter

variable, script = sys.argv[1:3]
sys.argv = sys.argv[2:]
value = runpy.run_path(script, run_name="__main__")
for part in variable.split("."):
    value = value[part] if isinstance(value, dict) and part in value else getattr(value, part)

seen = {value.grad_fn}
waiting = [value.grad_fn]
edges = 0
while waiting:
    for node, _ in waiting.pop().next_functions:
        edges += node is not None
        if node is not None and node not in seen:
            seen.add(node)
            waiting.append(node)

leaves = [node.variable for node in seen if hasattr(node, "variable")]
facts = {
    "nodes": len(seen),
    "edges": edges,
    "names": Counter(node.name() for node in seen),
    "leaves": sorted(list(leaf.shape) for leaf in leaves),
}
print(json.dumps(facts))
sys.stdout.flush()
# Freeing a deep graph whose nodes Python has seen would overflow the C stack.
os._exit(0)
