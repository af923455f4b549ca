"""The one question of `reef init`: what computes tokens."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import typer

from daemon.errors import BadRequest, NotFound
from daemon.paths import Home
from reef_cli.downloading import download
from reef_cli.output import printable, size

_REPOSITORY_FILE = re.compile(r"(?:hf:)?([\w.-]+/[\w.-]+/[\w./-]+\.gguf)")
_QUESTION = """\
What computes tokens?
  1  the embedded model: small, comes with Reef, needs nothing (to try everything)
  2  a GGUF file on this machine
  3  a model to download: owner/repo/file.gguf
  4  an OpenAI-compatible server: a URL"""


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """`model` is what `engine.model` will say; `url` makes it an upstream engine."""

    model: str
    url: str = ""
    api_key_env: str = ""


def parse(engine: str, model: str = "", api_key_env: str = "") -> EngineChoice:
    """Understand what was typed after --engine.

    Raises:
        BadRequest: it is none of the four kinds, or a URL came without the model's name.
    """
    if re.match(r"https?://", engine):
        if not model:
            raise BadRequest("A URL needs the model's name there.", f"reef init --engine {engine} --model NAME")
        return EngineChoice(model, engine.rstrip("/"), api_key_env)
    if model or api_key_env:
        raise BadRequest("--model and --api-key-env go with a URL.", "reef init --engine http://127.0.0.1:11434/v1 --model NAME")
    if engine == "embedded":
        return EngineChoice("embedded")
    path = Path(engine).expanduser()
    if path.suffix == ".gguf" and (path.exists() or not _REPOSITORY_FILE.fullmatch(engine)):
        return EngineChoice(str(path.absolute()))
    if match := _REPOSITORY_FILE.fullmatch(engine):
        return EngineChoice("hf:" + match[1])
    raise BadRequest(
        f"'{engine}' is no engine that Reef knows.",
        "Name: embedded, a .gguf file, owner/repo/file.gguf to download, or an OpenAI-compatible URL.",
    )


def ask() -> EngineChoice:
    """Ask a person, again until the answer can be understood.

    Raises:
        BadRequest: nobody is there to answer.
    """
    try:
        return _ask()
    except typer.Abort:
        if sys.stdin.isatty():
            raise
    print(file=sys.stderr)
    raise BadRequest("There is a question, and nobody to answer it.", "Say it at once: reef init --yes, or reef init --engine WHAT")


def _ask() -> EngineChoice:
    print(_QUESTION)
    while True:
        number = typer.prompt("Choose", default="1").strip()
        if number == "1":
            return EngineChoice("embedded")
        try:
            if number == "2":
                return parse(typer.prompt("Path of the .gguf file").strip())
            if number == "3":
                return parse("hf:" + typer.prompt("owner/repo/file.gguf").strip().removeprefix("hf:"))
            if number == "4":
                url = typer.prompt("URL", default="http://127.0.0.1:11434/v1").strip()
                model = typer.prompt("Model's name there").strip()
                return parse(
                    url, model, typer.prompt("Environment variable with its key (none: just Enter)", default="", show_default=False)
                )
        except BadRequest as error:
            print(f"{error.message} {error.hint}")
            continue
        print("Type 1, 2, 3 or 4.")


def prepare(choice: EngineChoice, home: Home) -> EngineChoice:
    """Check the model, or download it; the choice as the configuration will name it.

    Raises:
        ReefError: the file is no GGUF, or the download failed.
    """
    if choice.url:
        print(f"Engine: {choice.model} at {choice.url}")
        return choice
    from daemon.model_files import read_model
    from daemon.models import embedded_model

    if choice.model.startswith("hf:"):
        path = download(choice.model, home)
        choice = replace(choice, model=path.name)
    elif choice.model == "embedded":
        path = embedded_model()
    else:
        path = Path(choice.model)
        if not path.is_file():
            raise NotFound(f"There is no file {path}.", "Name a .gguf file that exists.")
    header = read_model(path)
    print(f"Engine: {printable(header.name or path.name)} ({header.architecture}, {size(header.size_bytes)})")
    return choice
