"""Message formats: how selected indices, values, signs and levels become bytes, and back."""
