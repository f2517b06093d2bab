"""Lines that flip a picture at random, and leave the boxes or points that belong to it where they are.

>>> lines = '''def __getitem__(self, i):
...     image, box = self.images[i], self.boxes[i]
...     if torch.rand(()) < 0.5:
...         image = image.flip(-1)
...     return image, box'''.splitlines()
>>> [(found.line, found.picture, found.places) for found in flipped_alone(SourceTree(dict(enumerate(lines, 1))))]
[(4, 'image', 'box')]
>>> lines.insert(4, "        box = mirrored(box)")
>>> list(flipped_alone(SourceTree(dict(enumerate(lines, 1)))))
[]
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import SourceTree, called_name, last_name, names_in


class FlippedAlone(Struct, frozen=True):
    """A picture that is flipped, and what the function returns or the loop reads beside it, as it was."""

    line: int
    picture: str
    places: str
    are_boxes: bool
    """Whether they are called boxes, and not points."""


_DRAWS = frozenset({
    "rand", "random", "randint", "uniform", "bernoulli", "randrange", "choice", "getrandbits", "random_sample",
    "binomial", "integers",
})  # fmt: skip
_FLIPS = frozenset({"flip", "hflip", "vflip", "fliplr", "flipud", "mirror"})
_SEEDS = frozenset({"seed", "manual_seed", "getstate", "setstate", "get_state", "set_state", "fork_rng"})
"""What makes two draws alike: then what is drawn for the picture may be drawn for its boxes as well."""
_BOXES = re.compile(r"box|(?:^|[^a-z])(?:bbs?|xyxy|cxcywh|xywh|rects?)(?:$|[^a-z])|rectangle", re.IGNORECASE)
_POINTS = re.compile(
    r"keypoint|key_point|kpt|kps|landmark|joints|(?:^|[^a-z])(?:points?|pts)(?:$|[^a-z])", re.IGNORECASE
)
_OTHERS = re.compile(
    r"size|dim|extent|depth|volume|label|class|area|count|score|(?:^|_)(?:wh|w|h)(?:$|_)", re.IGNORECASE
)


def flipped_alone(tree: SourceTree) -> Iterator[FlippedAlone]:
    """Those of one file."""
    for node in tree.nodes:
        flips = _flips(tree, node)
        if not flips or not _is_at_random(tree, node):
            continue
        pictures = {name for name, _ in flips}
        until = next(tree.loops_around(node), tree.scope(node))
        scope = tree.scope(node)
        drawn_in = scope if isinstance(scope, FUNCTIONS) else until
        if any(called_name(each) in _SEEDS for each in ast.walk(drawn_in)) or not _is_called(tree, scope):
            continue
        for places in _beside(tree, node, pictures):
            text = _meaning(tree, places)
            is_named = (_BOXES.search(text) or _POINTS.search(text)) and not _OTHERS.search(text)
            if is_named and not _is_changed(until, node, _names(places)):
                name, line = flips[0]
                yield FlippedAlone(line, name, ast.unparse(places), _BOXES.search(text) is not None)
                break


def _is_called(tree: SourceTree, scope: ast.AST) -> bool:
    """Whether a function is named anywhere else, or is one that Python calls."""
    name = scope.name if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)) else "__"
    return name.startswith("__") or any(
        last_name(each) == name for each in tree.nodes if isinstance(each, (ast.Name, ast.Attribute))
    )


def _flips(tree: SourceTree, node: ast.AST) -> list[tuple[str, int]]:
    """The pictures that a statement flips if something is true, and the lines; nothing if it does anything else."""
    match node:
        case ast.If(body=body, orelse=[]):
            found = [_flipped(tree, each, each.value) for each in body if isinstance(each, ast.Assign)]
            flips = [each for each in found if each is not None]
            return flips if len(flips) == len(body) else []
        case ast.Assign(value=ast.IfExp(body=value)):
            flip = _flipped(tree, node, value)
            return [] if flip is None else [flip]
    return []


def _flipped(tree: SourceTree, node: ast.Assign, value: ast.expr) -> tuple[str, int] | None:
    parts = list(ast.walk(value))
    is_flip = any(_is_flip(each) for each in parts) and not any(_turns_channels(tree, each) for each in parts)
    match node.targets:
        case [ast.Name(id=name)] if name in _names(value) and is_flip:
            return name, node.lineno
    return None


def _turns_channels(tree: SourceTree, node: ast.AST) -> bool:
    """``image[..., ::-1]`` and ``image[:, :, ::-1]`` of a picture whose last axis becomes the first one later."""
    match node:
        case ast.Subscript(slice=ast.Tuple(elts=[*before, last])) if is_turned(last):
            is_third = ast.unparse(ast.Tuple(before, ast.Load())) in ("(...,)", "(:, :)")
            return is_third and any(_puts_channels_first(each) for each in ast.walk(tree.scope(node)))
    return False


def _puts_channels_first(node: ast.AST) -> bool:
    """``image.permute(2, 0, 1)``, ``np.transpose(image, (2, 0, 1))``"""
    return called_name(node) in ("permute", "transpose") and "2, 0, 1" in ast.unparse(node)


def _is_flip(node: ast.AST) -> bool:
    return called_name(node) in _FLIPS or is_turned(node)


def is_turned(node: ast.AST) -> bool:
    """``::-1``"""
    return isinstance(node, ast.Slice) and node.step is not None and ast.unparse(node.step) == "-1"


def _is_at_random(tree: SourceTree, node: ast.AST) -> bool:
    """Whether what is drawn there decides on this alone."""
    test = getattr(node, "test", None) or getattr(getattr(node, "value", None), "test", None)
    if not isinstance(test, ast.expr):
        return False
    if any(called_name(each) in _DRAWS for each in ast.walk(test)):
        return True
    scope = list(ast.walk(tree.scope(node)))
    for name in _names(test):
        given = [value for value in _given(tree, node, name) if any(called_name(e) in _DRAWS for e in ast.walk(value))]
        reads = [each for each in scope if isinstance(each, ast.Name) and each.id == name]
        if given and sum(isinstance(each.ctx, ast.Load) for each in reads) == 1:
            return True
    return False


def _given(tree: SourceTree, node: ast.AST, name: str) -> list[ast.expr]:
    """The values that a name is given in the function around a node."""
    scope = tree.scope(node)
    pairs = (pair for pair in tree.assignments if isinstance(pair[0], ast.Name) and pair[0].id == name)
    return [value for target, value in pairs if tree.scope(target) is scope]


def _beside(tree: SourceTree, node: ast.AST, pictures: set[str]) -> Iterator[ast.expr]:
    """What a function returns beside a picture, and what a loop reads that has got both together."""
    scope, line = tree.scope(node), getattr(node, "lineno", 0)
    for each in tree.nodes:
        if not isinstance(each, ast.Return) or tree.scope(each) is not scope or each.lineno < line:
            continue
        parts = each.value.elts if isinstance(each.value, ast.Tuple) else []
        parts = list(each.value.values) if isinstance(each.value, ast.Dict) else parts
        if any(pictures & _names(part) for part in parts):
            yield from (part for part in parts if not pictures & _names(part))
    loop = next(tree.loops_around(node), None)
    if loop is None:
        return
    pairs = [loop.target] if isinstance(loop, ast.For) else []
    inside = list(ast.walk(loop))
    pairs += [target for each in inside if isinstance(each, ast.Assign) for target in each.targets]
    read = {
        each.id
        for each in inside
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load) and each.lineno > line
    }
    for pair in pairs:
        names = [part for part in ast.walk(pair) if isinstance(part, ast.Name)] if isinstance(pair, ast.Tuple) else []
        if pictures & {each.id for each in names} and pair.lineno < line:
            yield from (each for each in names if each.id not in pictures and each.id in read)


def _meaning(tree: SourceTree, places: ast.expr) -> str:
    """What names say of an expression: its own, the key that it has in a dict, and that of which a variable is made."""
    around = tree.parent(places)
    keys = zip(around.keys, around.values, strict=True) if isinstance(around, ast.Dict) else ()
    texts = [ast.unparse(places), *(ast.unparse(key) for key, value in keys if value is places and key is not None)]
    if isinstance(places, ast.Name):
        texts += [ast.unparse(value) for value in _given(tree, places, places.id)]
    return " ".join(texts)


def _is_changed(until: ast.AST, node: ast.AST, names: set[str]) -> bool:
    """Whether a later line of a loop or function gives one of these names another value, or changes what it holds."""
    line = getattr(node, "lineno", 0)
    for each in ast.walk(until):
        is_written = not isinstance(getattr(each, "ctx", ast.Load()), ast.Load)
        if getattr(each, "lineno", 0) < line:
            continue
        if is_written and names & _names(each.value if isinstance(each, (ast.Subscript, ast.Attribute)) else each):
            return True
        match each:
            case ast.Call(func=ast.Attribute(attr=name) as method) if name.endswith("_") and names & _names(method):
                return True
            case ast.Expr(value=ast.Call(args=given)) if isinstance(until, FUNCTIONS):
                if any(names & _names(one) for one in given):
                    return True  # A call whose result nobody takes may change what it is given.
    return False


def _names(node: ast.AST) -> set[str]:
    return names_in(node) - {"self"}
