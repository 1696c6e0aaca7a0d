"""What a check does: the rings, the exact comparison, the words, the points that matter on a format's line."""
