"""Goals: what must stay the same when a forest has fewer trees. Each is a file, and so is a new one."""
