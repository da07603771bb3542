"""Decodes fetched bytes to what Spark gets, for DStreams and the data source."""
