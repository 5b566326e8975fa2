"""A page about a comparison, in one HTML file."""
