"""The logs on disk: the offset log of a direct stream, and Spark's own log of a query."""
