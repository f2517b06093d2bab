"""The words on nodes, boxes and links and in their tooltips, for all formats."""
