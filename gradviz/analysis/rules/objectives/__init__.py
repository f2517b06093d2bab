"""Rules about what a loss is made of otherwise: overlaps, penalties, players, terms that stand at the wrong place."""
