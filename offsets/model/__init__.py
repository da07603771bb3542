"""The values: partitions, ranges, batches, positions, losses."""
