"""Folding: module calls as boxes, repeats as one box, and how many levels of boxes are open. `repeats` has the rules
for repeats."""
