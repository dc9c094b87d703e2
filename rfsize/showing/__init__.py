"""Text, pictures and pages of results."""
