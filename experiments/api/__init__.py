"""What ``import accelarray`` gives to scripts and notebooks: inputs of any form, and results."""
