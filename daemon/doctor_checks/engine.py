"""The engine: is its model there, does it fit, can it be trained on this machine?"""

from __future__ import annotations

import os
from collections.abc import Iterator

import psutil

from daemon.config import EngineConfig, UpstreamConfig
from daemon.doctor_checks.finding import Finding, State
from daemon.gguf import GGUFHeader
from daemon.model_files import read_model
from daemon.models import TRAINABLE_ARCHITECTURES, resolve_model
from daemon.paths import Home
from daemon.training.job import memory_needed_bytes

_UPSTREAM_TIMEOUT_S = 5.0


def check(config: EngineConfig, home: Home) -> Iterator[Finding]:
    """Raises ReefError where the model is missing or is no GGUF; its sentence is the finding."""
    if isinstance(config, UpstreamConfig):
        yield from _upstream(config)
        return
    path = resolve_model(config.model, home)
    header = read_model(path)
    yield Finding(
        "model", State.OK, f"{header.name or path.name}: {header.architecture}, {header.quantisation}, {header.size_bytes / 1e6:.0f} MB"
    )
    available = psutil.virtual_memory().available
    if header.size_bytes > available:
        sentence = f"The model needs {header.size_bytes / 1e9:.1f} GB of memory and {available / 1e9:.1f} GB are free."
        yield Finding("memory", State.FAIL, sentence, "Close other programs, or choose a smaller model: reef init --engine PATH")
    yield _training(header, available)


def _training(header: GGUFHeader, available: int) -> Finding:
    if header.architecture not in TRAINABLE_ARCHITECTURES:
        known = ", ".join(sorted(TRAINABLE_ARCHITECTURES))
        sentence = f"Models of the architecture {header.architecture} serve, but do not train; harness recipes work."
        return Finding("training", State.NOTE, sentence, f"These train: {known}")
    needed = memory_needed_bytes(header.parameters)
    facts = f"training needs about {needed / 1e9:.1f} GB ({needed} bytes) of memory, {available / 1e9:.1f} GB are free"
    if needed > available:
        return Finding("training", State.NOTE, f"The model serves, but {facts}.", "Close other programs, or choose a smaller model.")
    return Finding("training", State.OK, f"{facts[0].upper()}{facts[1:]}")


def _upstream(config: UpstreamConfig) -> Iterator[Finding]:
    import httpx

    headers = {}
    if config.api_key_env:
        key = os.environ.get(config.api_key_env)
        if not key:
            hint = f"export {config.api_key_env}=…"
            yield Finding("engine", State.FAIL, f"The environment variable {config.api_key_env} with the upstream's key is not set.", hint)
            return
        headers["authorization"] = f"Bearer {key}"
    try:
        with httpx.Client(trust_env=False, timeout=_UPSTREAM_TIMEOUT_S) as client:
            answer = client.get(f"{config.url.rstrip('/')}/models", headers=headers)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        yield Finding(
            "engine",
            State.FAIL,
            f"{config.url} does not answer: {error}.",
            "Start that server, or change it: reef init --engine URL --model NAME",
        )
        return
    if answer.status_code in (401, 403):
        hint = "Name the variable with its key: reef init --engine URL --model NAME --api-key-env NAME"
        yield Finding("engine", State.FAIL, f"{config.url} refuses the key (status {answer.status_code}).", hint)
    elif answer.status_code >= 400:
        yield Finding("engine", State.NOTE, f"{config.url} lists no models (status {answer.status_code}); it may serve all the same.")
    elif f'"{config.model}"' not in answer.text:
        yield Finding("engine", State.NOTE, f"{config.url} answers, but lists no model {config.model}.", "Check engine.model.")
    else:
        yield Finding("engine", State.OK, f"{config.model} at {config.url}")
    yield Finding(
        "training", State.NOTE, "An upstream engine serves and takes harness recipes; weights are trained with the llama engine only."
    )
