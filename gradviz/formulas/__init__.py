"""How torch computes gradients: its own formulas, by node name. Does not import torch."""

from gradviz.formulas.known import known_formulas as known_formulas
from gradviz.formulas.known import of as of
