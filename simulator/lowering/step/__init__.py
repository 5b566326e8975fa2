"""One training step as a program: rules of an execution model, and what they write."""
