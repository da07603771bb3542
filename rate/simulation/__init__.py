"""A simulated stream, for `kafka-direct rate simulate`."""
