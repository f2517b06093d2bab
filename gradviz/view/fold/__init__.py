"""Folding: module calls as boxes, repeats as one, and how deep boxes are open."""
