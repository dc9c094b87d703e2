"""What trees said: votes, scores, and from scores to predictions."""
