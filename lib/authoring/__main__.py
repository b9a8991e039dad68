"""python -m authoring build [NAME …] | check [NAME …] | accept NAME [LINE …] [--all]"""

import argparse
import sys

from authoring import build, pictures, source


def main() -> int:
    parser = argparse.ArgumentParser(prog="authoring", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, help_ in (
        ("build", "write both editions of every source, or of those named"),
        ("check", "tell which editions are not what their source builds"),
    ):
        command = commands.add_parser(name, help=help_)
        command.add_argument("names", nargs="*", metavar="NAME", help="for example 02_softmax")
    accept = commands.add_parser("accept", help="the English says again what the Chinese says")
    accept.add_argument("name", metavar="NAME")
    accept.add_argument("lines", nargs="*", type=int, metavar="LINE")
    accept.add_argument("--all", action="store_true", help="every pair of this source")
    chosen = parser.parse_args()
    try:
        if chosen.command == "accept":
            path = source.path_of(chosen.name)
            stamped, waiting = source.accept(path, chosen.lines, chosen.all)
            print(f"{path.name}: {len(stamped)} accepted")
            for line in waiting:
                print(f"{path.name}:{line}: the zh paragraph before it was changed; accept by line")
            return 0
        known = source.names()
        for name in chosen.names:
            if name not in known:
                print(f"there is no source {name}; there are: {', '.join(known)}")
                return 2
        sources = [source.path_of(name) for name in chosen.names or known]
        work = build.write if chosen.command == "build" else build.stale
        faults = build.for_each(work, sources)
        if chosen.command == "build" and not chosen.names:
            pictures.write()
    except source.Fault as only:
        faults = [only]
    for fault in faults:
        print(fault)
    if not faults:
        print(f"{len(sources)} sources, {2 * len(sources)} editions: in order")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
