"""Questions asked of many steps: comparisons, sweeps, scaling, and where results are kept."""
