"""Three examples for each command, which its help shows first."""

from __future__ import annotations

Example = tuple[str, str]
"""A command line, and what it does."""

EXAMPLES: dict[str, tuple[Example, ...]] = {
    "check": (
        ("gradviz check train.py", "report wrong and missing gradients, with line and reason"),
        ("gradviz check train.py --why encoder.weight", "explain why a parameter gets no gradient"),
        ("gradviz check train.py -- --epochs 1", "pass arguments on to the script"),
    ),
    "compiled": (
        ("gradviz compiled train.py", "which graph breaks and recompilations torch.compile has, and why"),
        ("gradviz compiled train.py --steps 20", "those of the first 20 steps"),
        ("gradviz compiled train.py --json", "the same as data"),
    ),
    "completion": (
        ("gradviz completion bash >> ~/.bashrc", "complete commands, options and files in bash"),
        ("gradviz completion zsh >> ~/.zshrc", "the same in zsh"),
        ("gradviz completion fish > ~/.config/fish/completions/gradviz.fish", "the same in fish"),
    ),
    "demo": (
        ("gradviz demo", "show what gradviz can do, without a script"),
        ("gradviz render train.py", "draw a script of your own"),
        ("gradviz check train.py", "find its wrong and missing gradients"),
    ),
    "diff": (
        ("gradviz diff yesterday.gradviz train.py", "what is different between two runs, and where it began"),
        ("gradviz diff train.py@HEAD~3 train.py", "the script as it was at a commit"),
        ("gradviz diff train.py --env A=1 --env-b A=2", "one script, two settings"),
    ),
    "doctor": (
        ("gradviz doctor", "list what works with this torch"),
        ("gradviz doctor --json", "the same as data, for a bug report"),
        ("gradviz doctor > doctor.txt", "the same in a file"),
    ),
    "explain": (
        ("gradviz explain softmax", "the derivative of an operation"),
        ("gradviz explain LogSoftmaxBackward0", "the same by the name of its node"),
        ("gradviz explain loss train.py --values", "one node of a script, with its numbers"),
    ),
    "flow": (
        ("gradviz flow train.py", "the gradient of every parameter after one backward"),
        ("gradviz flow train.py -o flow.svg", "the same as a chart"),
        ("gradviz flow run.gradviz --over-steps", "all steps that gradviz.watch() recorded"),
    ),
    "memory": (
        ("gradviz memory train.py", "which lines and modules keep memory for backward"),
        ("gradviz memory train.py --by operation", "the same by operation"),
        ("gradviz memory train.py -o memory.png", "a treemap"),
    ),
    "ranks": (
        ("gradviz ranks run.gradviz", "compare the ranks that were recorded"),
        ("gradviz ranks -- torchrun --nproc-per-node 2 train.py", "record all ranks and compare them"),
        ("gradviz ranks run.gradviz --json", "the same as data"),
    ),
    "record": (
        ("gradviz record train.py", "write train.gradviz, which all commands take"),
        ("gradviz record train.py --backward last", "record the last step"),
        ("gradviz record train.py -o step.gradviz -- --lr 0.1", "pass arguments on to the script"),
    ),
    "render": (
        ("gradviz render train.py -o net.png", "draw the graph of the first backward()"),
        ("gradviz render train.py --color-by gradient", "colours show the size of the gradients"),
        ("gradviz render train.py --around loss -o loss.svg", "draw only what is near a tensor"),
    ),
    "replay": (
        ("gradviz replay train.py", "step through backward with the arrow keys"),
        ("gradviz replay train.py --all", "print every step"),
        ("gradviz replay train.py -o steps.svg", "draw the steps as one picture"),
    ),
    "rules": (
        ("gradviz rules", "list what gradviz check looks for"),
        ("gradviz rules GV101", "explain one rule, with an example"),
        ("gradviz rules GV1", "explain a family of rules"),
    ),
    "schema": (
        ("gradviz schema", "the JSON Schema of a .json file"),
        ("gradviz schema check", "that of what gradviz check --format json prints"),
        ("gradviz schema > graph.schema.json", "the same in a file"),
    ),
    "tree": (
        ("gradviz tree train.py", "print the graph from the loss down to its inputs"),
        ("gradviz tree train.py --find relu", "only what matches, and where it is"),
        ("gradviz tree train.py --from loss --columns +dtype", "what loss was computed from, with dtypes"),
    ),
    "view": (
        ("gradviz view train.py", "explore the graph in the browser"),
        ("gradviz view train.py --color-by gradient", "colours show the size of the gradients"),
        ("gradviz render train.py -o net.html", "write the page to a file"),
    ),
}
