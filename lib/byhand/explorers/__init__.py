"""The explorers, a module each: `from byhand.explorers import scaling`, then `scaling.explorer(lang)`.

Each module has `view(…, lang)`, which draws one state, and `explorer(lang)`, the controls for it.
"""

from typing import Final

# Which notebook shows which.
NOTEBOOK_OF: Final = {
    "squares": "00_map",
    "scaling": "01_scores_and_scaling",
    "softmax_row": "02_softmax",
    "weighing": "03_weighted_values",
    "output_projection": "04_heads_and_output_projection",
    "real_heads": "05_real_heads",
    "rotation": "06_real_shapes",
    "shapes": "06_real_shapes",
    "tensors": "07_two_outputs",
}
