"""The SVG painter, PNG and PDF made from its pictures, and charts."""
