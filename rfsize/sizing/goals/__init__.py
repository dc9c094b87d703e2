"""Goals: what must stay the same when a forest has fewer trees. Each kind of goal has its own file."""
