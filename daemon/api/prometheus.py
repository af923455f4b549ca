"""Prometheus' text format, version 0.0.4: https://prometheus.io/docs/instrumenting/exposition_formats/"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from daemon.observing.measures import Histogram

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Labels = Mapping[str, str]
_NONE: Labels = {}


def gauge(name: str, text: str, value: float) -> Iterator[str]:
    yield from family(name, text, "gauge", [(_NONE, value)])


def counter(name: str, text: str, value: float) -> Iterator[str]:
    yield from family(name, text, "counter", [(_NONE, value)])


def family(name: str, text: str, kind: str, samples: Iterable[tuple[Labels, float]]) -> Iterator[str]:
    """One metric with a sample for each set of labels."""
    yield _head(name, text, kind)
    for labels, value in samples:
        yield f"{name}{_labels(labels)} {_number(value)}\n"


def histograms(name: str, text: str, samples: Iterable[tuple[Labels, Histogram]]) -> Iterator[str]:
    yield _head(name, text, "histogram")
    for labels, histogram in samples:
        below = 0
        counts = list(histogram.counts)  # one moment's: another thread may add to it
        for bound, count in zip((*histogram.bounds, float("inf")), counts, strict=True):
            below += count
            yield f"{name}_bucket{_labels({**labels, 'le': _number(bound)})} {below}\n"
        yield f"{name}_sum{_labels(labels)} {_number(histogram.sum)}\n{name}_count{_labels(labels)} {below}\n"


def _head(name: str, text: str, kind: str) -> str:
    return f"# HELP {name} {text}\n# TYPE {name} {kind}\n"


def _labels(labels: Labels) -> str:
    inner = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{inner}}}" if inner else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    if value == float("inf"):
        return "+Inf"
    return str(int(value)) if value == int(value) else repr(float(value))
