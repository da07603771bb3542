"""The batch cycle that DStreams and queries share, behind a port of the brokers."""
