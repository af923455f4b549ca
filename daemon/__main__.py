"""`python -P -m daemon VERB`: what must work with the daemon down. People type `reef`, which calls this."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from daemon.errors import ReefError
from daemon.failure import INTERRUPTED, reader_gone, tell, tell_bug
from daemon.paths import Home


def main(arguments: list[str] | None = None) -> int:
    """Run one verb; the exit code, as `daemon.failure` lists them."""
    options = _parser().parse_args(arguments)
    home = Home(Path(options.home).expanduser().resolve())
    try:
        code = _run(options, home)
        sys.stdout.flush()
        return code
    except ReefError as error:
        return tell(error.message, error.hint)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return reader_gone()
    except Exception as error:  # noqa: BLE001 -- the top of the process: whatever is left is a bug of ours
        return tell_bug(error, f"python -P -m daemon {options.verb} …", home)


def _run(options: argparse.Namespace, home: Home) -> int:
    if options.verb == "serve":
        return _serve(home, options.config, options.port)
    if options.verb == "fsck":
        return _fsck(home, options)
    if options.verb == "gc":
        return _gc(home, options)
    if options.verb == "backup":
        return _backup(home, options)
    if options.verb == "restore":
        return _restore(home, options)
    if options.tools:
        return _doctor_tools(home, options)
    return _doctor(home, options.config, json_output=options.json)


_VERBS = {
    "serve": "Serve in the foreground.",
    "fsck": "Check everything stored.",
    "gc": "Make room, with the daemon down.",
    "doctor": "Check this machine.",
    "backup": "Write a backup.",
    "restore": "Put a backup back.",
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -P -m daemon", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for name, text in _VERBS.items():
        verb = verbs.add_parser(name, help=text)
        verb.add_argument("--home", required=True, help="Reef's home folder")
        verb.add_argument("-c", "--config", type=Path, help="a serve.yaml over the home's own configuration")
        if name == "serve":
            verb.add_argument("--port", type=int, help="listen here instead")
        else:
            verb.add_argument("--json", action="store_true", help="machine-readable output")
        if name == "backup":
            verb.add_argument("file", nargs="?", type=Path, help="where to, or with --check which one")
            verb.add_argument("--check", action="store_true", help="verify a backup and say what is in it")
        if name == "fsck":
            verb.add_argument("--repair", action="store_true", help="mend the releases, with the daemon down")
            verb.add_argument("--from", type=Path, dest="source", help="a backup, or a clone of versions.git")
        if name == "gc":
            verb.add_argument("--dry-run", action="store_true", help="say what could go, and remove nothing")
        if name == "restore":
            verb.add_argument("file", type=Path, help="a backup")
            verb.add_argument("--force", action="store_true", help="move what is there aside")
        if name == "doctor":
            verb.add_argument("--tools", action="store_true", help="try tool calls, and say which agents will work")
            verb.add_argument("--url", default="", help="against this OpenAI-compatible server")
            verb.add_argument("--model", default="", help="with this model")
            verb.add_argument("--key-env", default="", help="the environment variable with that server's key")
    return parser


def _serve(home: Home, serve_file: Path | None, port: int | None) -> int:
    import uvloop

    from daemon.lifecycle import run

    uvloop.run(run(home, serve_file, dict(os.environ), {} if port is None else {"server.port": port}))
    return 0


def _fsck(home: Home, options: argparse.Namespace) -> int:
    from daemon.checks import run_fsck

    return run_fsck(home, json_output=options.json, repair=options.repair, source=options.source)


def _gc(home: Home, options: argparse.Namespace) -> int:
    from daemon.collecting import run_gc

    return run_gc(home, options.config, dict(os.environ), dry_run=options.dry_run)


def _backup(home: Home, options: argparse.Namespace) -> int:
    from daemon.backup.verbs import run_backup

    return run_backup(home, options.file, check=options.check, json_output=options.json)


def _restore(home: Home, options: argparse.Namespace) -> int:
    from daemon.backup.verbs import run_restore

    return run_restore(home, options.file, force=options.force, json_output=options.json)


def _doctor(home: Home, serve_file: Path | None, *, json_output: bool) -> int:
    from daemon.doctor import main as doctor

    return doctor(home, serve_file, json_output=json_output)


def _doctor_tools(home: Home, options: argparse.Namespace) -> int:
    from daemon.doctor_tools import Asked
    from daemon.doctor_tools import main as doctor_tools

    return doctor_tools(home, Asked(options.url, options.model, options.key_env), json_output=options.json)


if __name__ == "__main__":
    sys.exit(main())
