"""The explorers, a module each: `from byhand.explorers import scaling`, then `scaling.explorer(lang)`.

Each module has `view(…, lang)`, which draws one state, and `explorer(lang)`, the controls for it.
"""

from typing import Final

# Which notebook shows which.
NOTEBOOK_OF: Final = {
    "squares": "00_map",
    "scaling": "01_scores_and_scaling",
    "weighing": "03_weighted_values",
    "real_heads": "05_real_heads",
}
