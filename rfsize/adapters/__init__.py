"""What rfsize asks of a framework, and how the right one is found."""
