"""The report's page: its sections, and the skeleton, style and script around them."""
