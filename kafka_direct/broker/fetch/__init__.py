"""How a worker reads a range."""
