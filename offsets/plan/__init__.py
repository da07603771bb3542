"""Plans the ranges of a batch from positions and from what the brokers have. Pure."""
