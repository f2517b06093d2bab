"""What is drawn of a graph, whatever the format: selected, grouped, folded. Works without torch."""
