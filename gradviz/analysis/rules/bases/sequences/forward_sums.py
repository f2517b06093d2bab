"""Loops that sum rewards up with a discount, and leave the sums in an order that is not meant, in lines of a program.

>>> lines = dict(enumerate('''for r in rewards:
...     R = r + 0.99 * R
...     returns.append(R)
... returns = torch.tensor(returns)
... '''.splitlines(), start=1))
>>> [(found.line, found.sums) for found in forward_sums(lines)]
[(1, 'returns')]
>>> lines[1] = "for r in reversed(rewards):"
>>> list(forward_sums(lines))
[]
>>> [(found.line, found.sums) for found in sums_left_reversed(lines)]
[(1, 'returns')]
>>> list(sums_left_reversed({**lines, 4: "returns = torch.tensor(returns[::-1])"}))
[]
>>> list(sums_left_reversed({**lines, 3: "    returns.append((r, R))"}))
[]
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator, Mapping

from msgspec import Struct

from gradviz.analysis.sources.parsed_lines import indent_of
from gradviz.analysis.sources.source_tree import names_in


class ForwardSum(Struct, frozen=True):
    """A loop whose sums go from the first reward to the last, or whose list has the last one in front."""

    line: int
    last_line: int
    rewards: str
    """What the loop goes through, as the program writes it."""
    sums: str
    """The list or array that gets the sums."""
    function: str | None = None
    """The function around the loop, if the line that begins it is known."""


Lines = Mapping[int, str]
_FOR = re.compile(r"\s*for\s.+\sin\s.+:")
_TURNS = re.compile(
    r"reversed\s*\(|\[\s*::\s*-1\s*\]|\.reverse\s*\(|flip|,\s*-1\s*,\s*-1|\brev_|_rev\b|backward_order|\.pop\s*\(\s*\)"
)
_REWARDS = re.compile(r"rew|delta|td_?err|(?:^|[^a-z])(?:rs?|R)(?:$|[^a-z])")
_MAX_BODY = 30


def forward_sums(lines: Lines) -> Iterator[ForwardSum]:
    """Those of one file whose order nothing turns around, before the loop or after it."""
    for number, text in lines.items():
        if not _FOR.match(text):
            continue
        last, loop = _loop_at(lines, number)
        found = None if loop is None else _sum_of(loop)
        if found is None or loop is None:
            continue
        going_through = ast.unparse(loop.iter)
        names = names_in(loop.iter) - {"range", "len", "zip"}
        is_put_in_front = re.search(rf"\b{re.escape(found)}\.(insert|appendleft)\(", ast.unparse(loop)) is not None
        if not is_put_in_front and not _is_turned(lines, number, {found, *names}):
            yield ForwardSum(number, last, going_through, found, _function_around(lines, number))


def sums_left_reversed(lines: Lines) -> Iterator[ForwardSum]:
    """Those that go from the last reward to the first, append each sum to a list, and never turn the list around."""
    turned = [number for number, text in lines.items() if _TURNS.search(text.partition("#")[0])]
    loops = {number: _loop_at(lines, number) for number in turned if _FOR.match(lines[number])}
    sums = {number: None if loop is None else _sum_of(loop) for number, (_, loop) in loops.items()}
    for number, (last, loop) in loops.items():
        found, function = sums[number], _function_around(lines, number)
        is_whole = function is not None or _is_of_module(lines, number)
        if found is None or loop is None or not is_whole or not _is_list_of_sums(loop, found):
            continue
        others = [each for each in turned if each != number]
        names = re.compile(rf"\b({'|'.join(re.escape(each) for each in (found, function) if each)})\b")
        here = [each for each in others if _function_around(lines, each) == function]
        is_turned = any(sums.get(each) is None or names.search(lines[each]) for each in others)
        if is_turned or any(sums.get(each) == found for each in here):
            continue
        from_the_end = re.compile(rf"\b{re.escape(found)}\s*\[[^\]]*-")
        if _TURNS.search(ast.unparse(loop.iter)) and not any(from_the_end.search(text) for text in lines.values()):
            yield ForwardSum(number, last, ast.unparse(loop.iter), found, function)


def _is_list_of_sums(loop: ast.For, sums: str) -> bool:
    """Whether a loop appends its sums to a list, with nothing beside them that tells to which step they belong, and
    keeps nothing else in that order."""
    items, totals = names_in(loop.target), set[str]()
    appended = list[tuple[str, ast.expr]]()
    for node in ast.walk(loop):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                (totals if name in names_in(value) else items).add(name)
            case ast.Call(func=ast.Attribute(value=holder, attr="append"), args=[added]):
                appended.append((ast.unparse(holder), added))
    items -= totals
    alone = [
        all(not totals & names_in(term) or not items & names_in(term) for term in _terms(added))
        if name == sums
        else bool(totals & names_in(added))
        for name, added in appended
    ]
    return all(alone) and sums in {name for name, _ in appended}


def _loop_at(lines: Lines, number: int) -> tuple[int, ast.For | None]:
    """The last line of a loop, and the loop."""
    indent, last = indent_of(lines[number]), number
    for following in range(number + 1, number + _MAX_BODY):
        text = lines.get(following)
        if text is None or (text.strip() and indent_of(text) <= indent):
            break
        last = following
    block = textwrap.dedent("\n".join(lines[each] for each in range(number, last + 1)))
    try:
        (statement,) = ast.parse(block).body
    except (SyntaxError, ValueError):
        return last, None
    return last, statement if isinstance(statement, ast.For) else None


def _sum_of(loop: ast.For) -> str | None:
    """The list that gets the discounted sums of rewards, or of what exceeds a value, that a loop makes in its order."""
    items = names_in(loop.target)
    is_through_rewards = isinstance(loop.target, ast.Name) and _REWARDS.search(ast.unparse(loop.iter)) is not None
    known = _Known(items, set(items) if is_through_rewards and not _is_counted(loop) else set())
    total = None
    for statement in loop.body:
        known.note(statement)
        total = _discounted(statement, known) or total
        stored = None if total is None else _stored(statement, total, known.items)
        stored = stored or _discounted_in_place(statement, known)
        if stored is not None:
            return stored
    return None


def _is_counted(loop: ast.For) -> bool:
    """Whether a loop only counts: ``for t in range(len(rewards))``."""
    return "range(" in ast.unparse(loop.iter)


class _Known:
    """The names that a loop has given to the items that it goes through, and to what it made of rewards."""

    def __init__(self, items: set[str], rewards: set[str]) -> None:
        self.items = items
        self._rewards = rewards

    def note(self, statement: ast.stmt) -> None:
        """Take in ``r = rewards[i]``, and ``delta = rewards[i] + gamma * values[i + 1] - values[i]``."""
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Subscript() as item):
                if self.items & names_in(item) and _is_in_order(item):
                    self.items.add(name)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.BinOp() as value):
                if name not in names_in(value) and self.has_reward(value):
                    self._rewards.add(name)

    def has_reward(self, expression: ast.expr) -> bool:
        """Whether an expression has a reward of the item that the loop is at."""
        is_of_item = bool(self.items & names_in(expression)) and _is_in_order(expression)
        is_named = is_of_item and _REWARDS.search(ast.unparse(expression)) is not None
        return is_named or bool(self._rewards & names_in(expression))


def _is_in_order(item: ast.expr) -> bool:
    """Whether an expression counts no index from the end, apart from those of the values beside rewards."""
    taken = [each for each in ast.walk(item) if isinstance(each, ast.Subscript)]
    rewards = [each for each in taken if _REWARDS.search(ast.unparse(each.value))]
    indices = [each.slice for each in rewards or taken]
    return not any(isinstance(each, ast.BinOp | ast.UnaryOp) for index in indices for each in ast.walk(index))


def _discounted(statement: ast.stmt, known: _Known) -> str | None:
    """The name of the sum in ``total = reward + factor * total``."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=total)], value=ast.BinOp() as value):
            terms = list(_terms(value))
            products = [each for each in terms if isinstance(each, ast.BinOp) and total in names_in(each)]
            others = [each for each in terms if total not in names_in(each)]
            is_sum = len(products) == 1 and len(others) == len(terms) - 1
            return total if is_sum and any(known.has_reward(each) for each in others) else None
    return None


def _terms(expression: ast.expr) -> Iterator[ast.expr]:
    """The summands of a sum; those that are subtracted, too."""
    waiting = [expression]
    while waiting:
        each = waiting.pop()
        if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Add | ast.Sub):
            waiting += [each.left, each.right]
        else:
            yield each


def _discounted_in_place(statement: ast.stmt, known: _Known) -> str | None:
    """The array in ``sums[i] = reward + factor * sums[i - 1]``."""
    match statement:
        case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=sums), slice=ast.Name(id=index))], value=value):
            before = re.compile(rf"\b{re.escape(sums)}\[{re.escape(index)} - 1\]")
            terms = list(_terms(value))
            earlier = [each for each in terms if before.search(ast.unparse(each))]
            others = [each for each in terms if sums not in names_in(each)]
            is_sum = index in known.items and len(earlier) == 1 and len(others) == len(terms) - 1
            return sums if is_sum and any(known.has_reward(each) for each in others) else None
    return None


def _stored(statement: ast.stmt, total: str, items: set[str]) -> str | None:
    """The list to which ``sums.append(total)`` or ``insert()`` adds the sum, or the array where ``sums[i] = total``."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=sums), attr=attr), args=[*_, added])):
            return sums if attr in ("append", "insert", "appendleft") and total in names_in(added) else None
        case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=sums), slice=ast.Name(id=index))], value=value):
            return sums if index in items and total in names_in(value) else None
    return None


def _is_turned(lines: Lines, number: int, names: set[str]) -> bool:
    """Whether a line turns the order of one of these lists around, or of what the function around the loop gets."""
    function = _function_around(lines, number)
    is_whole = function is not None or not indent_of(lines[number])
    names = names if function is None else {*names, function}
    mentions = re.compile(rf"\b({'|'.join(map(re.escape, sorted(names)))})\b")
    turning = {each: text for each, text in lines.items() if _TURNS.search(text.partition("#")[0])}
    helpers = {_function_around(lines, each) for each in turning} - {function, None}
    called = [text for text in lines.values() if any(re.search(rf"\b{name}\(", text) for name in helpers)]
    return any(mentions.search(text) or not is_whole for text in (*turning.values(), *called))


def _is_of_module(lines: Lines, number: int) -> bool:
    """Whether the lines above are known up to one that is not indented."""
    while number in lines and (not lines[number].strip() or indent_of(lines[number])):
        number -= 1
    return number in lines


def _function_around(lines: Lines, number: int) -> str | None:
    """The name of the function around a line; None if it is in none, or the lines above are not known."""
    least = indent_of(lines[number])
    while least and number - 1 in lines:
        number -= 1
        text = lines[number]
        if text.strip() and indent_of(text) < least:
            least = indent_of(text)
            found = re.match(r"\s*def\s+(\w+)", text)
            if found:
                return found.group(1)
    return None
