"""What happens: a network, its plan and an array to a program of operations."""
