"""Walking down trees without their framework: what counting votes and predicting have in common."""
