"""What is written down: the offset log of a direct stream, and Spark's own log of a query."""
