"""When it happens: SimPy processes for cores, HBM and links, and their records."""
