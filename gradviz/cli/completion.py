"""``gradviz completion``: prints what a shell needs to complete commands, options and file names."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem, get_completion_class

from gradviz.cli.options.shared import GroupedCommand
from gradviz.errors import check_choice

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_GRADVIZ_COMPLETE"
"""The environment variable with which the shell asks: click has this name from that of the command."""


def _names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(shell) for shell in SHELLS if shell.startswith(incomplete)]


@click.command("completion", cls=GroupedCommand)
@click.argument("shell", metavar="|".join(SHELLS), shell_complete=_names)
@click.pass_context
def completion_command(ctx: click.Context, shell: str) -> int:
    """Print the completion of gradviz for a shell: add it to the file that the shell reads at its start."""
    from gradviz.cli.terminal.printing import print_document

    check_choice("shell", shell, SHELLS)
    completion = get_completion_class(shell)
    assert completion is not None, shell
    print_document(completion(ctx.find_root().command, {}, "gradviz", VARIABLE).source() + "\n")
    return 0
