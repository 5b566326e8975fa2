"""What a run of many steps costs: dollars, joules, and time lost to failures and slow chips."""
