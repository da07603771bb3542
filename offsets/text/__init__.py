"""How people and Kafka's tools write positions, times and listings."""
