"""The functions that users call, and the results that these return."""
