"""The HTML page: one offline file to explore a graph in."""
