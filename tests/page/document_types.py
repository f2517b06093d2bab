"""TypeScript's view of what the page is given, made of `gradviz.rendering.page.document`.

``python -m tests.page.document_types`` writes two files among the sources of the page's script: types, by which its
linter checks every use of the data, and the names of the fields of what is packed as lists. A test compares them with
what would be written now, so neither side can change alone.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import msgspec
from msgspec import NODEFAULT
from msgspec import inspect as types

from gradviz.rendering.page import document
from gradviz.rendering.page.document import PageDetails, PageDocument
from gradviz.rendering.page.html_file import FOLDER

_NOTE = "Made by 'python -m tests.page.document_types' of gradviz.rendering.page.document: change that instead."
_PLAIN = {
    types.StrType: "string",
    types.IntType: "number",
    types.FloatType: "number",
    types.BoolType: "boolean",
    types.NoneType: "null",
}
_NAMES_OF_LISTS = "record-fields.js"
_WIRE_TYPES = "wire-types.d.ts"


def generated_files() -> dict[Path, str]:
    """By path, what the files should contain."""
    folder = Path(str(FOLDER)) / "src" / "document"
    structs = list(_structs())
    return {
        folder / _WIRE_TYPES: f"// {_NOTE}\n" + "".join(f"\n{_declaration(each)}" for each in structs),
        folder / _NAMES_OF_LISTS: f"// {_NOTE}\n"
        + "".join(f"\n{_field_names(each)}" for each in structs if each.array_like),
    }


def _structs() -> Iterator[types.StructType]:
    """Every struct of the module that a page is given, in the module's order."""
    used = msgspec.json.schema_components([PageDocument, PageDetails])[1]
    for name, value in vars(document).items():
        if name in used:
            struct = types.type_info(value)
            assert isinstance(struct, types.StructType)
            yield struct


def _declaration(struct: types.StructType) -> str:
    name, comments = struct.cls.__name__, _comments(struct.cls)
    may_omit = struct.cls.__struct_config__.omit_defaults and not struct.array_like  # A list has all of them.
    lines = [_comment(inspect.cleandoc(struct.cls.__doc__ or "")), f"export interface {name} {{"]
    for field in struct.fields:
        if field.name in comments:
            lines.append(_comment(comments[field.name], "  "))
        lines.append(f"  {field.name}{_typed(field, may_omit)};")
    lines.append("}")
    if struct.array_like:
        packed = ", ".join(f"{field.name}{_typed(field, may_omit)}" for field in struct.fields)
        lines += ["", f"/** {name} as the file has it. */", f"export type Packed{name} = [{packed}];"]
    return "\n".join(lines) + "\n"


def _typed(field: types.Field, may_omit: bool) -> str:
    """The type of a field with the sign before it: one that has its default may not be in the file at all."""
    has_default = field.default is not NODEFAULT or field.default_factory is not NODEFAULT
    if not (may_omit and has_default):
        return f": {_type(field.type)}"
    if field.default is None and isinstance(field.type, types.UnionType):
        return f"?: {_union([each for each in field.type.types if not isinstance(each, types.NoneType)])}"
    return f"?: {_type(field.type)}"


def _type(of: types.Type) -> str:
    if isinstance(of, types.StructType):
        return ("Packed" if of.array_like else "") + of.cls.__name__
    if isinstance(of, types.UnionType):
        return _union(of.types)
    if isinstance(of, types.VarTupleType):
        inner = _type(of.item_type)
        return f"({inner})[]" if " " in inner and not inner.startswith("[") else f"{inner}[]"
    if isinstance(of, types.TupleType):
        return f"[{', '.join(map(_type, of.item_types))}]"
    if isinstance(of, types.DictType):
        return f"Record<string, {_type(of.value_type)}>"  # In JSON every key is a string.
    return _PLAIN[type(of)]


def _union(of: tuple[types.Type, ...] | list[types.Type]) -> str:
    return " | ".join(map(_type, of))


def _field_names(struct: types.StructType) -> str:
    name = struct.cls.__name__
    constant = name.removeprefix("Page").upper()
    names = ", ".join(f'"{field.name}"' for field in struct.fields)
    return (
        f'/** @type {{readonly (keyof import("./{_WIRE_TYPES.replace(".d.ts", ".js")}").{name})[]}} */\n'
        f"export const {constant}_FIELDS = [{names}];\n"
    )


def _comments(of: type) -> dict[str, str]:
    """What the source says below each field."""
    body = ast.parse(dedent(inspect.getsource(of))).body[0]
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field, below in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
            found[field.target.id] = inspect.cleandoc(ast.literal_eval(below.value))
    return found


def _comment(text: str, indent: str = "") -> str:
    if "\n" not in text:
        return f"{indent}/** {text} */"
    return "\n".join([f"{indent}/**", *(f"{indent} * {line}".rstrip() for line in text.splitlines()), f"{indent} */"])


def main() -> None:
    """Writes the files."""
    for path, text in generated_files().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
