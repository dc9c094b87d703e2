"""What is certified of a forest on rows that it was not trained on, by an exact binomial bound."""
