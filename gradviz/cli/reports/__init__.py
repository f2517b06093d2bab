"""What commands print about pictures and run logs; the tables are in `gradviz.rendering.reports`."""
