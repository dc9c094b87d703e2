"""From what trees said to how far a forest of any size is from the infinite one."""
