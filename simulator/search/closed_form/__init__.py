"""Steps in closed form, from pieces that the engine measured: what ranks plans."""
