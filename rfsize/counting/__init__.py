"""One pass down the trees: votes, scores, and the proof of the bags."""
