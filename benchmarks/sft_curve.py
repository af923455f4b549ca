"""Form against general loss: what `sft` teaches the embedded model from eight corrections, and what it costs.

    .venv/bin/python -m benchmarks.sft_curve                       # the settings that ship
    .venv/bin/python -m benchmarks.sft_curve --vary steps=6,12,24 --vary divergence_weight=0,0.3,3
    .venv/bin/python -m benchmarks.sft_curve --split held_out --shipped-probe

Each line is one training, from the recipe itself, evaluated on the served quantised weights with the GGUF LoRA: the share of prompts
answered in the form, bare and behind the corrections as demonstrations, and the mean token loss of a text that is not the shipped
probe. Settings were chosen on `development` prompts (held-in and benchmarks/data/changes.txt); held-out ones are for the last word.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.local_model import LocalModel
from daemon.evolution import probe
from daemon.evolution.context import RunContext, TrainingLimits
from daemon.evolution.model_client import ModelClient
from daemon.evolution.progress import Progress
from daemon.evolution.recipe import Batch
from daemon.experience.stream import Turn
from daemon.harness_tree import HarnessTree
from daemon.records import Inference, JSONObject, Message, Report
from daemon.serving_hints import Demonstration, ServingHints
from daemon.training.job import read_result
from daemon.versions.manifest import BaseModelFacts, Manifest, Operation
from daemon.versions.release import Release, ReleaseState
from recipes.sft.recipe import SFTRecipe, SFTSettings

ROOT = Path(__file__).resolve().parent.parent
WORKLOAD = json.loads((ROOT / "reef_cli" / "demo" / "workload.json").read_text())
GENERAL_TEXT = (ROOT / "benchmarks" / "data" / "general_text.txt").read_text()
ASK = "Write a commit message for this change: "
MAX_TOKENS = 48


@dataclass(frozen=True)
class Point:
    form: float
    form_behind_demonstrations: float
    loss: float
    shipped_probe: float


def prompts(split: str) -> list[str]:
    if split != "development":
        return [entry["prompt"] for entry in WORKLOAD[split]]
    more = (ROOT / "benchmarks" / "data" / "changes.txt").read_text().splitlines()
    return prompts("held_in") + [ASK + line for line in more]


def form(model: ModelClient, asked: list[str]) -> float:
    pattern = re.compile(WORKLOAD["pattern"])
    replies = [model.chat([{"role": "user", "content": prompt}], max_tokens=MAX_TOKENS).text for prompt in asked]
    return sum(pattern.search(reply) is not None for reply in replies) / len(replies)


def general_loss(model: ModelClient) -> float:
    values = model.score(model.tokenize(GENERAL_TEXT))
    return -math.fsum(values) / len(values)


def measure(local: LocalModel, candidate: str, asked: list[str], shipped: bool) -> Point:
    model = local.client(candidate)
    loss = probe.mean_loss(model) if shipped else math.nan
    return Point(form(model, asked), form(local.client(candidate + "+demos"), asked), general_loss(model), loss)


def corrected_turns(local: LocalModel) -> tuple[Turn, ...]:
    turns = []
    for number, entry in enumerate(WORKLOAD["corrections"]):
        messages: tuple[Message, ...] = ({"role": "user", "content": entry["prompt"]},)
        reply = local.client("base").chat(list(messages), max_tokens=128)
        inference = Inference(
            id=f"rec_{number}",
            scenario="default",
            session=f"ses_{number}",
            created_at=float(number),
            release_id="r1",
            lora_id=None,
            model="embedded",
            wire="chat",
            messages=messages,
            effective_messages=None,
            reply=reply.message,
            finish_reason=reply.finish_reason,
            tokens=reply.tokens,
            sequence=number,
        )
        report = Report(f"rep_{number}", "default", float(number), (inference.id,), feedback={"correction": entry["reply"]})
        turns.append(Turn(inference, (report,)))
    return tuple(turns)


def context(local: LocalModel, workdir: Path, seed: int, rank: int, told: list[JSONObject]) -> RunContext:
    facts = local.engine.model
    manifest = Manifest(
        release_id="r1",
        scenario="default",
        parent_release_id=None,
        operation=Operation.CREATION,
        created_at=0,
        change="",
        artifacts=(),
        base=BaseModelFacts(model=facts.id),
    )
    return RunContext(
        scenario="default",
        release=Release(manifest, "0" * 40, ReleaseState.PUBLISHED, HarnessTree(), None),
        lora_folder=None,
        model=local.client(),
        model_info=facts,
        capabilities=local.engine.capabilities,
        teacher=local.client(),
        tasks=(),
        rng=random.Random(seed),
        progress=Progress(told.append),
        workdir=workdir,
        seed=seed,
        limits=TrainingLimits(rank=rank, nice=5),
    )


def variants(vary: list[str]) -> list[JSONObject]:
    found: list[JSONObject] = [{}]
    for text in vary:
        name, _, values = text.partition("=")
        found += [{name: json.loads(value)} for value in values.split(",")]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--vary", action="append", default=[], help="SETTING=VALUE,VALUE: one training for each value; also `rank` and `seed`"
    )
    parser.add_argument("--only", action="store_true", help="leave out the training with the settings that ship")
    parser.add_argument("--split", choices=["development", "held_out"], default="development")
    parser.add_argument("--shipped-probe", action="store_true", help="measure the probe that ships as well")
    arguments = parser.parse_args()
    asked = prompts(arguments.split)
    with tempfile.TemporaryDirectory() as scratch:
        local = LocalModel(Path(scratch))
        local.hints = ServingHints(demonstrations=tuple(Demonstration(**entry) for entry in WORKLOAD["corrections"]))
        turns = corrected_turns(local)
        base = measure(local, "base", asked, arguments.shipped_probe)
        print(f"{len(asked)} prompts, {arguments.split}")
        print(f"{'settings':34} form  behind demos  loss    probe   steps tokens cpu_s wall_s")
        print(f"{'base model':34} {base.form:4.2f}  {base.form_behind_demonstrations:12.2f}", flush=True)
        for number, chosen in enumerate(variants(arguments.vary)[1 if arguments.only else 0 :]):
            rank, seed = int(str(chosen.get("rank", 16))), int(str(chosen.get("seed", 0)))
            settings = SFTSettings.model_validate({name: value for name, value in chosen.items() if name not in ("rank", "seed")})
            workdir = Path(scratch) / f"work-{number}"
            workdir.mkdir()
            told: list[JSONObject] = []
            candidate = SFTRecipe(settings).propose(Batch(turns), context(local, workdir, seed, rank, told))
            if candidate is None or candidate.lora_folder is None:
                raise SystemExit(f"no candidate: {told}")
            local.set_lora(candidate.lora_folder / "lora.gguf")
            point = measure(local, "lora", asked, arguments.shipped_probe)
            result = read_result(candidate.lora_folder)
            name = ", ".join(f"{key} {value}" for key, value in chosen.items()) or "as shipped"
            rise = point.loss / base.loss - 1
            shipped = f"{point.shipped_probe / base.shipped_probe - 1:+6.1%}" if arguments.shipped_probe else f"{'-':>6}"
            learned = f"{name:34} {point.form:4.2f}  {point.form_behind_demonstrations:12.2f}  {rise:+6.1%} {shipped}"
            print(f"{learned} {result.steps:6} {result.tokens:6} {result.cpu_s:5.0f} {result.wall_s:6.0f}", flush=True)
            local.set_lora(None)
        local.close()
        time.sleep(0.1)


if __name__ == "__main__":
    main()
