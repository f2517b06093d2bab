"""Every word that is shown on a node, a link or a box, for all formats."""
