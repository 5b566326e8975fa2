"""The commands: their arguments, and what they ask for; ``experiments.results`` tells it."""
