"""The Java client's configuration, read as Java reads it, in librdkafka's words."""
