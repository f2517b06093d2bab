"""Functions that rank samples, such as ``roc_auc_score()``, and are given predicted classes.

>>> tree = SourceTree(dict(enumerate('''found = (torch.sigmoid(model(x)) > 0.5).float()
... print(roc_auc_score(labels, found.numpy()), roc_auc_score(labels > 0, scores))
... '''.splitlines(), start=1)))
>>> list(ranked_classes(tree))
[RankedClasses(cut=1, ranked=2, function='roc_auc_score')]
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.rules.bases.sources.arrays.resolved_values import is_of_library, source_of, sources_of
from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import SourceTree, called_name, parameters_of

_RANKS = re.compile(
    r"roc_?auc|auroc|average_precision|precision_recall_curve|roc_curve|^auc_?(score|roc)?$", re.IGNORECASE
)
_SCORES = re.compile(r"score|pred|prob|output|logit", re.IGNORECASE)
_NAMED = frozenset({"y_score", "y_pred", "preds", "scores"})
_OF_SCIKIT_LEARN = frozenset({"roc_auc_score", "average_precision_score", "precision_recall_curve", "roc_curve"})
"""They take labels first; functions of torchmetrics and torcheval take scores first."""
_OF_WHERE = 3
_DATA = frozenset({
    "normal", "uniform", "standard_normal", "randn", "rand", "random", "load", "loadtxt", "genfromtxt", "read_csv",
})  # fmt: skip
_MAX_NAMES = 6


class RankedClasses(Struct, frozen=True):
    """A line that makes classes of scores, and the line that ranks by them."""

    cut: int
    ranked: int
    function: str


def ranked_classes(tree: SourceTree) -> Iterator[RankedClasses]:
    """In the order of the source."""
    for node in tree.nodes:
        if not isinstance(node, ast.Call) or not _RANKS.search(called_name(node)):
            continue
        given = _scores(tree, node)
        cuts = [] if given is None else sources_of(tree, given)
        if cuts and all(_is_cut(each) and not _is_of_data(tree, each) for each in cuts):
            yield RankedClasses(cuts[0].lineno, node.lineno, called_name(node))


def _scores(tree: SourceTree, call: ast.Call) -> ast.expr | None:
    """The argument by which a function ranks, if that is known."""
    named = next((each.value for each in call.keywords if each.arg in _NAMED), None)
    own = [each for each in tree.nodes if isinstance(each, FUNCTIONS) and each.name == called_name(call)]
    if own:
        places = [place for each in own for place, name in enumerate(parameters_of(each)) if _SCORES.search(name)]
    elif _has_scores_first(tree):
        places = [0]
    else:
        places = [1] if called_name(call) in _OF_SCIKIT_LEARN else []
    place = places[0] if len(places) == 1 else len(call.args)
    return named if named is not None or place >= len(call.args) else call.args[place]


def _has_scores_first(tree: SourceTree) -> bool:
    """Whether the file takes such functions from torchmetrics or torcheval."""
    modules = [each.module or "" for each in tree.nodes if isinstance(each, ast.ImportFrom)]
    modules += [alias.name for each in tree.nodes if isinstance(each, ast.Import) for alias in each.names]
    roots = {each.partition(".")[0] for each in modules}
    return bool(roots & {"torchmetrics", "torcheval"}) and "sklearn" not in roots


def _is_cut(node: ast.expr) -> bool:
    """``scores > 0.5``, ``torch.round(scores)``, ``scores.argmax(1)``, ``np.where(scores > 0.5, 1, 0)``."""
    match node:
        case ast.Compare(ops=[ast.Gt() | ast.GtE() | ast.Lt() | ast.LtE()], comparators=[right]):
            return isinstance(right, ast.Constant)
        case ast.Call(args=given):
            name = called_name(node)
            if name == "where" and len(given) == _OF_WHERE:
                return _is_cut(given[0]) and all(isinstance(each, ast.Constant) for each in given[1:])
            is_whole = len(given) <= is_of_library(node)
            return name == "argmax" or (name in ("round", "rint", "round_") and is_whole and not node.keywords)
    return False


def _is_of_data(tree: SourceTree, cut: ast.expr) -> bool:
    """Whether a column of the data is cut, as for a rule of thumb that the network should surpass."""
    node = cut.left if isinstance(cut, ast.Compare) else cut
    for _ in range(_MAX_NAMES):
        while isinstance(node, ast.Subscript):
            node = node.value
        source = source_of(tree, node)
        if source is None or source is node:
            break
        node = source
    return called_name(node) in _DATA
