"""The votes and scores of trees, and the step from scores to predictions."""
