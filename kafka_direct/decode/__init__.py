"""From fetched bytes to what Spark gets, for both doors."""
