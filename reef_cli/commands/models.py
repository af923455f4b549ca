"""`reef models [list|pull|use]`: the models of this machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from daemon.errors import BadRequest
from reef_cli import output
from reef_cli.locations import home, shown
from reef_cli.options import AsJSON
from reef_cli.running import find

if TYPE_CHECKING:
    from daemon.records import JSON, JSONObject

_USE_S = 1800.0  # a large model is read once for its hash and once to load it


def models(
    action: Annotated[
        Literal["list", "pull", "use"],
        typer.Argument(help="`list` shows them, `pull` downloads one, `use` serves one.", show_default=False),
    ] = "list",
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="For pull: owner/repo/file.gguf. For use: a name of the list, or a .gguf file.")
    ] = "",
    as_json: AsJSON = False,
) -> None:
    """`pull` goes on where an earlier download stopped, and checks what came against the hub's sha256. `use` loads the model beside
    the one that serves; requests under way end on that, new ones go to the new model, and each scenario gets a release without
    its LoRA, which was made for the model before. If it does not load, nothing changes.

    \b
    Examples:
      reef models
      reef models pull owner/repo/qwen3-4b-q4_k_m.gguf
      reef models use qwen3-4b-q4_k_m.gguf
      reef models use embedded
    """
    if action == "list":
        if name:
            raise BadRequest(f"'{name}' is too much.", f"To serve it: reef models use {name}")
        _list(as_json)
    elif not name:
        example = "owner/repo/file.gguf" if action == "pull" else "NAME (see: reef models)"
        raise BadRequest(f"Which model is to be {'pulled' if action == 'pull' else 'used'}?", f"reef models {action} {example}")
    elif action == "pull":
        _pull(name, as_json)
    else:
        _use(name, as_json)


def _list(as_json: bool) -> None:
    answer = _asked() if find(home()) is not None else _looked()
    if as_json:
        output.print_json(answer)
        return
    listed = output.rows(answer, "models")
    header = ("", "name", "size", "quantisation", "parameters", "window", "architecture", "trains")
    output.print_table(header, [_row(model) for model in listed], "No model is here.")
    for model in listed:
        if model.get("problem"):
            print(output.printable(f"{output.text(model.get('name'))} cannot serve: {output.text(model.get('problem'))}"))
        elif model.get("has_template") is False:
            print(output.printable(f"{output.text(model.get('name'))} has no chat template: ChatML is used, which it may not know."))
    if answer.get("loading"):
        print(output.printable(f"{output.text(answer.get('loading'))} is being loaded."))
    print(f"Serve another: reef models use NAME. Download one: reef models pull owner/repo/file.gguf (into {shown(home().models)})")


def _asked() -> JSONObject:
    from reef_cli.client import Client

    return Client().get("/reef/models")


def _looked() -> JSONObject:
    """The same with the daemon down: `serves` marks what the settings name."""
    from daemon.model_files import model_view, stored_models

    chosen = _chosen()
    found: list[JSON] = [{**model_view(model), "serves": model.path == chosen, "served_tokens": None} for model in stored_models(home())]
    return {"serves": None, "loading": None, "models": found}


def _chosen() -> Path | None:
    import os

    from daemon.config import LlamaConfig
    from daemon.config_load import load
    from daemon.errors import NotFound
    from daemon.models import resolve_model

    engine = load(home(), None, os.environ, {}).config.engine
    try:
        return resolve_model(engine.model, home()) if isinstance(engine, LlamaConfig) else None
    except NotFound:
        return None


def _row(model: JSONObject) -> tuple[str, ...]:
    served, own = model.get("served_tokens"), model.get("window_tokens")
    window = output.count(own) if served is None or served == own else f"{output.count(served)} of {output.count(own)}"
    return (
        "●" if model.get("serves") else "",
        output.text(model.get("name")),
        output.size(model.get("size_bytes")),
        output.text(model.get("quantisation")),
        _millions(model.get("parameters")),
        window,
        output.text(model.get("architecture")),
        output.text(model.get("trains")) if not model.get("problem") else "-",
    )


def _millions(count: JSON) -> str:
    if not isinstance(count, int) or isinstance(count, bool):
        return "-"
    return f"{count / 1e9:.1f} B" if count >= 999_500_000 else f"{count / 1e6:.0f} M"


def _pull(name: str, as_json: bool) -> None:
    from daemon.model_files import describe, model_view
    from reef_cli.downloading import download

    path = download(name, home())
    model = describe(path.name, path)
    if as_json:
        output.print_json(model_view(model))
        return
    print(f"{shown(path)}: {model.architecture or 'a GGUF file'}, {output.size(model.size_bytes)}")
    print(f"It cannot serve: {model.problem}" if model.problem else f"Serve it: reef models use {path.name}")


def _use(name: str, as_json: bool) -> None:
    if Path(name).suffix == ".gguf" and Path(name).expanduser().is_file():
        name = str(Path(name).expanduser().absolute())  # the daemon stands in another folder
    if find(home()) is None:
        _choose(name, as_json)
        return
    from reef_cli.client import Client
    from reef_cli.progress import waiting

    client = Client()
    try:
        with waiting(f"Loading {name} beside what serves"):
            answer = client.post("/reef/models/use", {"name": name}, timeout_s=_USE_S)
    except KeyboardInterrupt:
        print(f"\nThe daemon goes on loading {name}. See what serves: reef models", file=sys.stderr)
        raise
    if as_json:
        output.print_json(answer)
        return
    model = output.printable(output.text(answer.get("model")))
    before = output.printable(output.text(answer.get("before")))
    print(f"{model} serves now, with a window of {output.count(answer.get('context_tokens'))} tokens; {before} before.")
    for release in output.rows(answer, "releases"):
        print(
            output.printable(
                f"  {output.text(release.get('scenario'))}: {output.text(release.get('release_id'))}  {output.text(release.get('change'))}"
            )
        )
    warnings = answer.get("warnings")
    for warning in warnings if isinstance(warnings, list) else ():
        print(output.paint(f"  {output.printable(output.text(warning))}", output.YELLOW))
    print(f"  Requests under way end on the model before. Clients that name a model must name {model} now.")
    if home().agents.is_dir():
        print("  Installed agents take it over with: reef update")


def _choose(name: str, as_json: bool) -> None:
    """With the daemon down: only the settings change; the next start publishes what follows from it."""
    from daemon.config_edit import write_model
    from daemon.model_files import canonical, read_model
    from daemon.models import resolve_model

    where = home()
    path = resolve_model(name, where)
    read_model(path)
    chosen = canonical(path, where)
    changed = write_model(where.config, chosen)
    if as_json:
        output.print_json({"name": chosen, "model": None, "changed": changed})
    elif changed:
        print(f"{shown(where.config)} names {chosen} now. It serves from the next start on: reef up")
    else:
        print(f"{shown(where.config)} names {chosen} already. Start it: reef up")
