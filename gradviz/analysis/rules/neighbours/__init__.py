"""Rules about the edges of a graph: what a node gets of its neighbours."""
