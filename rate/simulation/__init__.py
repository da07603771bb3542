"""A stream on paper, for `kafka-direct rate simulate`."""
