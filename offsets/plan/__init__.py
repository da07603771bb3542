"""From positions and what the brokers have to the ranges of a batch. Pure."""
