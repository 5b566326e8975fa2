"""What the simulator says beside what was measured, derived or simulated by others."""
