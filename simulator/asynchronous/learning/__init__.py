"""Real models in numpy, carried through the simulated order of events."""
