"""One pass over the rows: count votes, add up scores, and prove which rows each tree was trained on."""
