"""HTML pages and notebook output of rfsize's results."""
