"""What one core takes for an operator: FLOPs, HBM traffic, memory and energy."""
