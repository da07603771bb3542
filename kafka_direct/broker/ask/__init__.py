"""What the driver asks the brokers."""
