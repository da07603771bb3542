"""What operators do: see where a stream stands, and move it."""
