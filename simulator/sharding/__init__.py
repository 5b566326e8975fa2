"""How tensors lie on the devices of an array, and what moves when they are to lie otherwise."""
