"""Reads the derivatives of the installed torch, without importing torch.

torch ships the file from which its backward functions are generated, and `torchgen`, which reads it. Reading takes a
second or two: `gradviz.formulas.available_formulas` caches the result.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from pkgutil import get_data
from typing import TYPE_CHECKING, Any

from gradviz.errors import MissingDependency
from gradviz.formulas.derivative import Derivative, FormulaTable, ForwardFormula, InputFormula, SavedValue
from gradviz.formulas.second_derivatives import differentiable_twice

if TYPE_CHECKING:
    from torchgen.api.autograd import DifferentiabilityInfo, SavedAttribute
    from torchgen.model import NativeFunction

_READ_BY = ("derivative.py", "torch_formulas.py", "second_derivatives.py")
_FILES = ("autograd/derivatives.yaml", "ATen/native/native_functions.yaml", "ATen/native/tags.yaml")

FINGERPRINT = 12
"""Number of letters."""


@dataclass(frozen=True, slots=True)
class FormulaFiles:
    """The files in which the installed torch describes its formulas, and its version."""

    torch_version: str
    paths: tuple[Path, ...]

    def fingerprint(self) -> str:
        """Changes with the content of the files, because builds from source keep their version for months, and with the
        code that reads them."""
        digest = sha256()
        for path in self.paths:
            digest.update(path.read_bytes())
        for module in _READ_BY:
            digest.update(get_data(__package__, module) or b"")
        return digest.hexdigest()[:FINGERPRINT]


def find_formula_files() -> FormulaFiles:
    """Find them; raises `MissingDependency` where no torch is installed, or one without these files."""
    found = find_spec("torchgen")
    if found is None or not found.submodule_search_locations:
        raise MissingDependency("torch's own formulas are missing: torch is not installed", hint="pip install torch")
    folder = Path(found.submodule_search_locations[0]) / "packaged"
    files = tuple(folder / name for name in _FILES)
    missing = [path for path in files if not path.is_file()]
    if missing:
        raise MissingDependency(f"the installed torch has no formulas: {missing[0]} is missing")
    return FormulaFiles(_version_of_torch(), files)


def _version_of_torch() -> str:
    from importlib import metadata  # It takes longer to import than everything else here.

    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        return "unknown"


def read_formulas(files: FormulaFiles) -> FormulaTable:
    """All formulas in the files; raises `MissingDependency` where this version of torchgen cannot be read."""
    try:
        return _read(files)
    except Exception as error:
        # Code and files of another package, which guarantees neither: report whatever goes wrong.
        why = f"{type(error).__name__}: {error}".splitlines()[0]
        raise MissingDependency(f"the formulas of torch {files.torch_version} could not be read: {why}") from error


def _read(files: FormulaFiles) -> FormulaTable:
    from torchgen.api.autograd import match_differentiability_info
    from torchgen.gen import parse_native_yaml
    from torchgen.packaged.autograd.load_derivatives import load_derivatives

    derivatives, native, tags = map(str, files.paths)
    infos, _ = load_derivatives(derivatives, native, tags)
    functions = parse_native_yaml(native, tags).native_functions
    # This also adds the formulas of functions on lists of tensors, which are made from those on tensors.
    matched = match_differentiability_info(functions, infos)
    known = [info for by_key in infos.values() for info in by_key.values()]
    found = _Derivatives(known, ((each.func, each.info) for each in matched if each.info), functions)
    having = {each.function for each in found}
    composed = {_name(each) for each in functions if each.has_composite_implicit_autograd_kernel} - having
    others = {_name(each) for each in functions} - having - composed
    return FormulaTable(files.torch_version, tuple(found), tuple(sorted(composed)), tuple(sorted(others)))


def _name(function: NativeFunction) -> str:
    return str(function.func.name.name.base)


class _Derivatives:
    """Every node that torch generates, with its derivative."""

    def __init__(
        self,
        known: Sequence[DifferentiabilityInfo],
        matched: Iterable[tuple[NativeFunction, dict[str, DifferentiabilityInfo]]],
        functions: Sequence[NativeFunction],
    ) -> None:
        self._known = known
        self._variants: defaultdict[str, list[str]] = defaultdict(list)
        for function, by_key in matched:
            for info in by_key.values():
                if info.op is not None:
                    self._variants[info.op].append(str(function.func))
        lacking = _without_derivative(known, functions)
        self._lacking = lacking
        self._having = {_name(info.func) for info in known if info.op} - lacking

    def __iter__(self) -> Iterator[Derivative]:
        seen = set()
        for info in self._known:
            if info.op is not None and info.op not in seen:
                seen.add(info.op)
                yield self._derivative(info)

    def _derivative(self, info: DifferentiabilityInfo) -> Derivative:
        schema = str(info.func.func)
        order = {argument.name: index for index, argument in enumerate(info.func.func.arguments.flat_all)}
        inputs = tuple(
            InputFormula(each.var_names, _one_line(each.original_formula), tuple(_slots(each)))
            for each in sorted(info.derivatives, key=lambda each: min(order[name] for name in each.var_names))
        )
        return Derivative(
            node=str(info.op),
            function=_name(info.func),
            schema=schema,
            inputs=inputs,
            forward=tuple(ForwardFormula(each.var_names, _one_line(each.formula)) for each in info.forward_derivatives),
            saved=(*_saved(info.all_saved_inputs, "input"), *_saved(info.all_saved_outputs, "result")),
            without_gradient=tuple(info.non_differentiable_arg_names),
            differentiable_outputs=tuple(map(bool, info.output_differentiability or ())),
            other_schemas=tuple(each for each in self._variants[str(info.op)] if each != schema),
            second=differentiable_twice([each.formula for each in inputs], self._having, self._lacking),
        )


def _without_derivative(known: Iterable[DifferentiabilityInfo], functions: Iterable[NativeFunction]) -> set[str]:
    """Functions of gradients that autograd cannot differentiate: they have no formula, nor are they made of functions
    that have.

    Only functions of gradients: others that a formula calls, such as `zeros_like`, make constants, which cut off
    nothing.
    """
    described = {_name(info.func) for info in known if not _is_refused(info)}
    return {
        _name(each)
        for each in functions
        if not each.has_composite_implicit_autograd_kernel
        and _name(each) not in described
        and ("backward" in _name(each) or "_grad" in _name(each))
    }


def _is_refused(info: DifferentiabilityInfo) -> bool:
    return info.op is not None and all(each.formula.startswith("not_implemented") for each in info.derivatives)


def _slots(derivative: Any) -> Iterator[str]:
    for each in (*derivative.saved_inputs, *derivative.saved_outputs):
        yield _slot(each)


def _saved(attributes: Iterable[SavedAttribute], of: Any) -> Iterator[SavedValue]:
    return (SavedValue(_slot(each), _one_line(each.expr), of) for each in attributes)


def _slot(attribute: SavedAttribute) -> str:
    name = attribute.nctype.name
    return name if isinstance(name, str) else name.name


def _one_line(formula: str) -> str:
    return " ".join(formula.split())
