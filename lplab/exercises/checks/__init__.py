"""What a check does: the stages, the exact comparison, the messages, the boundary values of a format."""
