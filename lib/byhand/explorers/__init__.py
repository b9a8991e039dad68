"""One explorer a notebook: `from byhand.explorers import scaling`, then `scaling.explorer(lang)`."""
