"""How torch computes gradients: its own formulas, by node name. Does not import torch."""

from gradviz.formulas.available_formulas import known_formulas as known_formulas
from gradviz.formulas.available_formulas import of as of
