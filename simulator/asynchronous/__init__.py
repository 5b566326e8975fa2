"""Training by workers that decide while they run: methods, slowdowns, graphs, learning."""
