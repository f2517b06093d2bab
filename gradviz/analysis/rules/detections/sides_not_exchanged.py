"""GV975."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.boxes.flipped_alone import is_turned
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import SourceTree, called_name, parameters_of


class SidesNotExchanged(Rule):
    """A flip mirrors keypoints, and the left ones keep the places of the left ones.

    What it finds
    -------------
    ``points[:, 0] = width - points[:, 0]`` in a function that also flips an image, in a program that names keypoints of
    both sides (a left eye and a right eye), where nothing puts the points into another order.

    Why it matters
    --------------
    In a mirrored picture the left eye looks like a right one. Its row has to become that of the right eye; otherwise
    the network learns from half of the pictures that the sides are the other way round, and ends between them.

    Example
    -------
    # keypoints: nose, left eye, right eye
    model = torch.nn.Linear(64, 6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        image, points = torch.rand(8, 8), torch.rand(3, 2)
        if step % 2:
            image = image.flip(-1)
            points[:, 0] = 1 - points[:, 0]
        loss = (model(image.flatten()).view(3, 2) - points).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    # keypoints: nose, left eye, right eye
    model = torch.nn.Linear(64, 6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        image, points = torch.rand(8, 8), torch.rand(3, 2)
        if step % 2:
            image = image.flip(-1)
            points[:, 0] = 1 - points[:, 0]
            points = points[[0, 2, 1]]
        loss = (model(image.flatten()).view(3, 2) - points).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV975"
    name = "sides_not_exchanged"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        if not case.histories.steps:
            return
        for file, tree in own_files(case):
            text = "\n".join(tree.lines.values())
            part = _part_of_both_sides(text)
            if part is None or _EXCHANGES.search(text) or not _POINTS.search(text):
                continue
            for node in tree.nodes:
                if not isinstance(node, ast.Assign) or not _mirrors(node) or not _flips(tree, node):
                    continue
                if not _orders(tree) and not _gives_rows(tree, node):
                    yield self._finding(file, node, part)
                    break

    def _finding(self, file: str, node: ast.Assign, part: str) -> Finding:
        target = node.targets[0]
        points = ast.unparse(target.value) if isinstance(target, ast.Subscript) else "points"
        return self.finding(
            f"the flip mirrors {points} and keeps the order of its rows: the row of the left {part} then has the place "
            f"of what looks like the right {part}",
            symptom="grad_wrong",
            why="in a mirrored image, what was at the left side is at the right one",
            fix=f"exchange the rows of both sides as well: {points} = {points}[[0, 2, 1]], with the order of yours",
            location=Location(file, node.lineno),
        )


_LEFT = re.compile(r"\b(?:left|l)[ _-]([a-z]+)|\bleft([A-Z][a-z]+)")
_POINTS = re.compile(r"key_?points?|landmarks?|\bjoints?\b|kpts?\b|skeleton", re.IGNORECASE)
_EXCHANGES = re.compile(
    r"swap|exchang|\bperm(?:utation)?s?\b|pairs|mirror_?(?:index|idx|order)|flip_?(?:index|idx|order|map)",
    re.IGNORECASE,
)
_FLIPS = frozenset({"flip", "fliplr", "hflip", "flip_left_right"})


_OF_PICTURES = frozenset({
    "and", "or", "to", "of", "is", "in", "border", "borders", "edge", "edges", "side", "sides", "half", "halves",
    "image", "images", "view", "views", "camera", "cameras", "margin", "boundary", "column", "columns", "part", "end",
    "neighbour", "neighbor", "top", "bottom", "upper", "lower", "most",
})  # fmt: skip
"""What has a left and a right one in any picture, and is no keypoint of a body."""


def _part_of_both_sides(text: str) -> str | None:
    """``eye``, where a program names a left eye and a right eye."""
    for match in _LEFT.finditer(text):
        part = match.group(1) or match.group(2)
        if part.lower() not in _OF_PICTURES and re.search(rf"\b(?:right|r)[ _-]?{part}\b", text):
            return part.lower()
    return None


def _mirrors(node: ast.Assign) -> bool:
    """``points[:, 0] = width - points[:, 0]``"""
    target, value = node.targets[0], node.value
    if not isinstance(target, ast.Subscript) or not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Sub):
        return False
    index = target.slice.elts[-1] if isinstance(target.slice, ast.Tuple) else None
    is_first = isinstance(index, ast.Constant) and index.value == 0
    while isinstance(value, ast.BinOp) and not isinstance(value.right, ast.Subscript):
        value = value.left
    return is_first and isinstance(value, ast.BinOp) and ast.unparse(value.right) == ast.unparse(target)


def _flips(tree: SourceTree, node: ast.Assign) -> bool:
    """Whether the same function flips something."""
    scope = tree.scope(node)
    return any((called_name(each) in _FLIPS or is_turned(each)) and tree.scope(each) is scope for each in tree.nodes)


def _orders(tree: SourceTree) -> bool:
    """Whether a list gives anything another order, two things exchange their places, or names their sides."""
    for node in tree.nodes:
        if _exchanges_two(node):
            return True
        if not isinstance(node, ast.Subscript):
            continue
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if any(isinstance(each, ast.List) and len(each.elts) > 1 for each in parts):
            return True
    names = (each.id for each in tree.nodes if isinstance(each, ast.Name))
    return any(_EXCHANGES.search(name) for name in names)


def _exchanges_two(node: ast.AST) -> bool:
    """``a["left_eye"], a["right_eye"] = a["right_eye"], a["left_eye"]``, or ``name.replace("left", "right")``."""
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
            one, other = ([ast.unparse(each) for each in parts] for parts in (targets, values))
            return one != other and sorted(one) == sorted(other)
        case ast.Call(func=ast.Attribute(attr="replace" | "sub"), args=[ast.Constant(value=str() as text), *_]):
            return _SIDE.search(text) is not None
    return False


_SIDE = re.compile(r"left|right|^[lr]_?$|^_?[lr]$", re.IGNORECASE)


def _gives_rows(tree: SourceTree, mirror: ast.Assign) -> bool:
    """Whether the lines around a mirroring give the points other rows: ``points = points[MIRRORED]``, one by one, or in
    a function of the program that does so."""
    target = mirror.targets[0]
    points = ast.unparse(target.value) if isinstance(target, ast.Subscript) else ""
    block = tree.block_of(mirror)
    scope = tree.scope(mirror)
    own = {*ast.walk(mirror)}
    for node in ast.walk(scope):
        if node in own or getattr(node, "lineno", 0) < block[0].lineno:
            continue
        if _takes_rows(node, points):
            return True
        given = node.args if isinstance(node, ast.Call) else []
        if any(ast.unparse(each) == points for each in given):
            functions = (each for each in tree.nodes if isinstance(each, FUNCTIONS) and each is not scope)
            called = next((each for each in functions if getattr(each, "name", "") == called_name(node)), None)
            names = parameters_of(called) if isinstance(called, ast.FunctionDef) else []
            if called is not None and any(_takes_rows(each, name) for each in ast.walk(called) for name in names):
                return True
    return False


def _takes_rows(node: ast.AST, points: str) -> bool:
    """``points[MIRRORED]``, ``points.index_select(0, MIRRORED)``, ``points[1] = right``, ``[points[0], points[2]]``."""
    match node:
        case ast.Subscript(value=value, slice=index) if ast.unparse(value) == points:
            first = index.elts[0] if isinstance(index, ast.Tuple) and index.elts else index
            is_number = isinstance(first, (ast.Constant, ast.UnaryOp))
            is_one_row = is_number and first is index and not isinstance(node.ctx, ast.Load)
            return is_one_row or not (is_number or isinstance(first, ast.Slice))
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            rows = [each for each in parts if isinstance(each, ast.Subscript) and ast.unparse(each.value) == points]
            return len(rows) > 1 and all(isinstance(each.slice, ast.Constant) for each in rows)
        case ast.Call(func=ast.Attribute(value=value, attr=name), args=given) if name in _BY_NUMBER:
            return points in (ast.unparse(each) for each in (value, *given))
    return False


_BY_NUMBER = frozenset({"index_select", "take_along_dim", "take_along_axis", "take", "gather"})
