"""Pages of HTML that tell what was found, and what notebooks show of it."""
