"""Planning by the simulator: whole steps judged, not splits priced, and what no step undercuts."""
