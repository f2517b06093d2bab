"""Formulas in other spellings: products and squares, derivatives forward, divergences, shares on a grid."""
