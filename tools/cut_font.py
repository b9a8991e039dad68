"""Cut data/fonts/ByHandSansSC-Regular.otf from Noto Sans CJK SC.

    python tools/cut_font.py NotoSansCJK-Regular.ttc

The source is the .ttc of the release 2.004 (Debian and Ubuntu: package fonts-noto-cjk); its face 2 is
the simplified Chinese one. What is kept: the 3,755 characters of GB 2312 level 1, every other character
that the project's own files use, ASCII and Latin-1, Greek, arrows, mathematical operators and full-width
forms. The family is renamed, so that a figure never picks a font of the same name from the reader's
system and looks the same everywhere. Needs fonttools, which matplotlib brings.
"""

import sys
from pathlib import Path

from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "data" / "fonts" / "ByHandSansSC-Regular.otf"
FACE_SC = 2
FAMILY = "ByHand Sans SC"
BLOCKS = [
    (0x0020, 0x007E),  # ASCII
    (0x00A0, 0x00FF),  # Latin-1
    (0x0391, 0x03C9),  # Greek
    (0x2010, 0x2044),  # dashes, quotation marks, ellipsis, prime
    (0x2070, 0x209C),  # superscripts and subscripts
    (0x2190, 0x21FF),  # arrows
    (0x2200, 0x22FF),  # mathematical operators, U+2212 among them
    (0x2460, 0x2473),  # circled numbers
    (0x25A0, 0x25FF),  # geometric shapes
    (0x3000, 0x3020),  # CJK punctuation
    (0xFF00, 0xFF5E),  # full-width forms
]
TEXTS = ["notebooks/source/*.py", "lib/byhand/*.py", "data/*.json", "README*.md"]


def wanted() -> set[int]:
    """Code points to keep."""
    points = {p for low, high in BLOCKS for p in range(low, high + 1)}
    for row in range(0xB0, 0xD8):  # GB 2312 level 1: rows 16 to 55
        for cell in range(0xA1, 0xFF):
            try:
                points.add(ord(bytes([row, cell]).decode("gb2312")))
            except UnicodeDecodeError:
                continue  # the last five places of row 55 are empty
    for pattern in TEXTS:
        for path in ROOT.glob(pattern):
            points |= {ord(c) for c in path.read_text(encoding="utf-8") if ord(c) >= 0x80}
    return points


def main(source: str) -> None:
    font = TTFont(source, fontNumber=FACE_SC, recalcTimestamp=False)
    options = Options()
    options.layout_features = ["kern", "palt"]
    options.name_IDs = [0, 1, 2, 3, 4, 5, 6, 7, 13, 14]
    options.notdef_outline = True
    options.desubroutinize = False
    options.hinting = False
    subsetter = Subsetter(options)
    subsetter.populate(unicodes=wanted())
    subsetter.subset(font)
    names = {
        1: FAMILY,
        3: f"{FAMILY} cut from NotoSansCJKsc-Regular 2.004",
        4: FAMILY,
        6: "ByHandSansSC-Regular",
    }
    for record in font["name"].names:
        if record.nameID in names:
            record.string = names[record.nameID]
    cff = font["CFF "].cff
    cff.fontNames = ["ByHandSansSC-Regular"]
    cff.topDictIndex[0].FullName = FAMILY
    cff.topDictIndex[0].FamilyName = FAMILY
    font.save(TARGET)
    megabytes = TARGET.stat().st_size / 1e6
    print(f"{TARGET.relative_to(ROOT)}: {len(font.getGlyphOrder())} glyphs, {megabytes:.2f} MB")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
