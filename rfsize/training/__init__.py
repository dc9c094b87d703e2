"""Train forests to their size, and choose the bagging fraction."""
