"""`gradviz view --serve`: a local web server for the page."""
