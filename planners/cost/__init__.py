"""What a plan costs: objectives, FLOPs, and the predicted time of a step."""
