"""Make the engine that the configuration names."""

from __future__ import annotations

from daemon.config import EngineConfig, UpstreamConfig
from daemon.engine.base import Engine
from daemon.engine.llama.cache.slots import SIDE_SLOTS
from daemon.engine.llama.engine import LlamaEngine
from daemon.engine.llama.machine import available_bytes, context_tokens, physical_cores, saved_bytes
from daemon.engine.llama.protocol import WorkerSettings
from daemon.engine.upstream.engine import UpstreamEngine
from daemon.model_files import read_model
from daemon.models import model_id, resolve_model
from daemon.paths import Home


def make_engine(config: EngineConfig, home: Home) -> Engine:
    """An engine that is not started yet.

    Raises:
        NotFound: there is no such model.
        DataError: its file is no GGUF of a model that writes text.
    """
    if isinstance(config, UpstreamConfig):
        return UpstreamEngine(config)
    path = resolve_model(config.model, home)
    header = read_model(path)
    wanted = None if config.context == "auto" else config.context
    memory = available_bytes()
    context = context_tokens(header, config.streams + SIDE_SLOTS, wanted, memory)
    settings = WorkerSettings(
        model=path,
        context_tokens=context,
        streams=config.streams,
        threads=physical_cores() if config.threads == "auto" else config.threads,
        gpu_layers=-1 if config.gpu_layers == "auto" else config.gpu_layers,
        cache_bytes=saved_bytes(header, config.streams, context, None if config.prefix_cache == "auto" else config.prefix_cache, memory),
    )
    return LlamaEngine(settings, header, model_id(config.model, path), home.log.with_name("engine.log"))
