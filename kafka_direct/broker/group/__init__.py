"""A consumer group, without joining it."""
