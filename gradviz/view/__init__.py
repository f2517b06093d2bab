"""What is drawn of a graph in any format: selected, grouped and folded. Works without torch."""
