"""What this machine offers the engine: cores, memory, and how long a context they allow."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from daemon.gguf import GGUFHeader

AUTO_CONTEXT_TOKENS = 32768
_LEAST_CONTEXT_TOKENS = 1024
_MEMORY_SHARE = 0.5  # of what is available beside the weights, for keys and values
_SAVED_SHARE = 0.125  # of what is available, for states of conversations that have no place now
_CACHE_BYTES = 2  # keys and values are F16
_CGROUP = Path("/sys/fs/cgroup")


def physical_cores() -> int:
    """Cores that this process may use, hyper-threads and container quotas taken into account; at least 1."""
    if sys.platform != "linux":
        return max(1, (os.cpu_count() or 1) // (1 if sys.platform == "darwin" else 2))
    allowed = sorted(os.sched_getaffinity(0))
    cores = set()
    for cpu in allowed:
        siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        try:
            cores.add(siblings.read_text().strip())
        except OSError:
            cores.add(str(cpu))
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        limit = len(cores) if quota == "max" else max(1, int(quota) // int(period))
    except (OSError, ValueError):
        limit = len(cores)
    return max(1, min(len(cores), limit))


def available_bytes() -> int:
    """Memory that can be had without swapping, a container's limit taken into account; 0 where it cannot be known."""
    return min((size for size in (_machine_bytes(), _container_bytes()) if size is not None), default=0)


def _machine_bytes() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (OSError, ValueError):
        return None


def _container_bytes() -> int | None:
    """What the control group leaves; files that it has read can make room."""
    try:
        limit, used = ((_CGROUP / name).read_text().strip() for name in ("memory.max", "memory.current"))
        lines = (line.split() for line in (_CGROUP / "memory.stat").read_text().splitlines())
        files = next((int(line[1]) for line in lines if line[0] == "inactive_file"), 0)
        return None if limit == "max" else max(1, int(limit) - int(used) + files)
    except (OSError, ValueError, IndexError):
        return None


def cache_bytes_per_token(header: GGUFHeader) -> int:
    """Bytes of keys and values that one token takes in all layers."""
    name = header.architecture
    heads = header.integer(f"{name}.attention.head_count", 1)
    width = header.integer(f"{name}.embedding_length") // max(1, heads)
    keys = header.integer(f"{name}.attention.key_length", width)
    values = header.integer(f"{name}.attention.value_length", width)
    kv_heads = header.integer(f"{name}.attention.head_count_kv", heads)
    return header.integer(f"{name}.block_count") * kv_heads * (keys + values) * _CACHE_BYTES


def context_tokens(header: GGUFHeader, slots: int, wanted: int | None, memory_bytes: int) -> int:
    """Tokens a stream may hold.

    Args:
        wanted: what the user set, taken as it is (at most the model's own window); None: the model's window, at most 32768, and less
            where half of the memory that the weights leave does not hold that for every slot.
        memory_bytes: what is available; 0: not known.
    """
    window = header.context_length or AUTO_CONTEXT_TOKENS
    if wanted is not None:
        return min(wanted, window)
    chosen = min(window, AUTO_CONTEXT_TOKENS)
    each = cache_bytes_per_token(header) * slots
    if memory_bytes and each:
        room = int(max(0, memory_bytes - header.size_bytes) * _MEMORY_SHARE)
        chosen = min(chosen, max(_LEAST_CONTEXT_TOKENS, room // each // 256 * 256))
    return chosen


def saved_bytes(header: GGUFHeader, streams: int, context: int, wanted: int | None, memory_bytes: int) -> int:
    """Memory for saved states.

    Args:
        wanted: what the user set, at most half of what is available; None: as much as the streams' own places take, at most an eighth.
        memory_bytes: what is available; 0: not known.
    """
    if wanted is None:
        size, share = cache_bytes_per_token(header) * streams * context, _SAVED_SHARE
    else:
        size, share = wanted, _MEMORY_SHARE
    return min(size, int(memory_bytes * share)) if memory_bytes else size
