"""Pictures: SVG by our own painter, PNG and PDF made from it, and charts."""
