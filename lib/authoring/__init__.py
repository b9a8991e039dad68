"""What turns notebooks/source into the two editions, and what guards them. byhand never imports it."""
