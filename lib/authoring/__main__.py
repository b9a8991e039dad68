"""python -m authoring build [NAME …] | check [NAME …] | accept NAME [LINE …]"""

import argparse
import sys

from authoring import build, source


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
    chosen = parser.parse_args()
    try:
        if chosen.command == "accept":
            stamped = source.accept(source.path_of(chosen.name), chosen.lines)
            print(f"{chosen.name}: {len(stamped)} accepted")
            return 0
        known = source.names()
        for name in chosen.names:
            if name not in known:
                print(f"there is no source {name}; there are: {', '.join(known)}")
                return 2
        sources = [source.path_of(name) for name in chosen.names or known]
        work = build.write if chosen.command == "build" else build.stale
        faults = build.for_each(work, sources)
    except source.Fault as only:
        faults = [only]
    for fault in faults:
        print(fault)
    if not faults:
        print(f"{len(sources)} sources, {2 * len(sources)} editions: in order")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
