"""The comparison of the ranks of a job as data for programs: ``gradviz ranks --json``."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Struct

from gradviz.analysis.ranks.rank_difference import RankComparison
from gradviz.capture.encoding import json_text


class RanksDocument(Struct, frozen=True, kw_only=True):
    """The whole document."""

    schema: Literal["gradviz ranks"] = "gradviz ranks"
    version: int = 1
    comparison: RankComparison


def ranks_json(comparison: RankComparison) -> str:
    """The document as text."""
    return json_text(RanksDocument(comparison=comparison))


def ranks_schema() -> dict[str, Any]:
    """The JSON Schema of the document."""
    return msgspec.json.schema(RanksDocument)
