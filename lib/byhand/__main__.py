"""The command `byhand`: kits for attention written in other languages, and what their results say."""

import argparse
import locale
import os
import sys

from byhand import kit, mistakes
from byhand.diagnosis import diagnose
from byhand.words import EDITIONS, pick


def language() -> str:
    """The edition of this machine's language: Chinese where the locale says so, else English."""
    name = os.environ.get("LC_ALL") or os.environ.get("LANG") or locale.getlocale()[0] or ""
    return "zh" if name.lower().startswith(("zh", "chinese")) else "en"


def main(arguments: list[str] | None = None) -> int:
    """Run one command. 0 when a result is correct, 1 when it is not, 2 for a wrong call."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")
    parser = argparse.ArgumentParser(prog="byhand", description=__doc__)
    parser.add_argument("--lang", choices=EDITIONS, default=language())
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("kit", help="write the inputs of small problems into a folder")
    writing.add_argument("folder", metavar="DIR")
    writing.add_argument("--kind", choices=tuple(kit.KINDS), default="multi_head")
    reading = commands.add_parser("diagnose", help="say what is wrong with results of a kit")
    reading.add_argument("files", metavar="FILE", nargs="+", help=".npy, .json, .csv or .bin")
    reading.add_argument("--kit", metavar="DIR", required=True)
    commands.add_parser("mistakes", help="list the catalogue of mistakes")
    chosen = parser.parse_args(arguments)
    try:
        if chosen.command == "kit":
            root = kit.write(chosen.folder, chosen.kind)
            print(
                pick(
                    chosen.lang,
                    f"写好了：{root}。先看 README.txt。",
                    f"Written: {root}. Read README.txt first.",
                )
            )
            return 0
        if chosen.command == "mistakes":
            for mistake in mistakes.CATALOGUE:
                print(f"{mistake.name:<28}{mistake.sentence(chosen.lang)}")
            return 0
        results = [kit.read_result(file) for file in chosen.files]
        found = diagnose(output=results, kit=chosen.kit, lang=chosen.lang)
    except BrokenPipeError:  # the reader of a pipe had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ValueError, OSError) as error:
        print(str(error), file=sys.stderr)
        return 2
    print(found)
    return 0 if found.correct else 1


if __name__ == "__main__":
    sys.exit(main())
