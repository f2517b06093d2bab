"""The HTML page: one offline file in which a graph can be explored."""
