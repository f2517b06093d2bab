"""What commands print: tables and summaries."""
