"""How many trees are enough: reports, metrics, and a forest cut down to its size."""
