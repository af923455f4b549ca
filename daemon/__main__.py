"""`python -P -m daemon VERB`: what must work with the daemon down. People type `reef`, which calls this."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from daemon.errors import ReefError
from daemon.paths import Home


def main(arguments: list[str] | None = None) -> int:
    """Run one verb; 0, or 1 with a sentence on stderr for what the user can mend."""
    options = _parser().parse_args(arguments)
    home = Home(Path(options.home).expanduser().resolve())
    try:
        if options.verb == "serve":
            return _serve(home, options.config, options.port)
        if options.verb == "fsck":
            return _fsck(home, json_output=options.json)
        return _doctor(home, options.config, json_output=options.json)
    except ReefError as error:
        print(error.message, error.hint, sep="\n" if error.hint else "", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -P -m daemon", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for name, text in (("serve", "Serve in the foreground."), ("fsck", "Check everything stored."), ("doctor", "Check this machine.")):
        verb = verbs.add_parser(name, help=text)
        verb.add_argument("--home", required=True, help="Reef's home folder")
        verb.add_argument("-c", "--config", type=Path, help="a serve.yaml over the home's own configuration")
        if name == "serve":
            verb.add_argument("--port", type=int, help="listen here instead")
        else:
            verb.add_argument("--json", action="store_true", help="machine-readable output")
    return parser


def _serve(home: Home, serve_file: Path | None, port: int | None) -> int:
    import uvloop

    from daemon.lifecycle import run

    uvloop.run(run(home, serve_file, dict(os.environ), {} if port is None else {"server.port": port}))
    return 0


def _fsck(home: Home, *, json_output: bool) -> int:
    from daemon.checks import run_fsck

    return run_fsck(home, json_output=json_output)


def _doctor(home: Home, serve_file: Path | None, *, json_output: bool) -> int:
    from daemon.doctor import main as doctor

    return doctor(home, serve_file, json_output=json_output)


if __name__ == "__main__":
    sys.exit(main())
