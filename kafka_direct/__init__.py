"""Kafka for PySpark without a JAR."""
