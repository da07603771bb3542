"""What operators do: see where a stream stands, and reset it to another position."""
