"""How torch computes gradients: its own formulas, by the name of a node, without torch being imported."""

from gradviz.formulas.known import known_formulas as known_formulas
from gradviz.formulas.known import of as of
