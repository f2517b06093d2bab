"""Formulas in other spellings: products and squares, parts of errors, divergences, shares on a grid, orders."""
