"""Rules about two networks that are trained against each other, or by turns: what one gets of the other."""
