"""What the driver asks of the brokers."""
