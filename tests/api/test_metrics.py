"""GET /metrics is text that Prometheus takes, and says what happened."""

from __future__ import annotations

import re
from pathlib import Path

from daemon.api.prometheus import family, histograms
from daemon.observing.measures import Histogram
from tests.daemon.running import running
from tests.engine.fake import ScriptedEngine

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_SAMPLE = re.compile(rf'({_NAME})(?:{{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\n"])*",?)*)}})? (-?[0-9.e+-]+|\+Inf|NaN)')
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\n"])*)"')
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def parse(text: str) -> Samples:
    """The samples of an exposition. Fails the test for what Prometheus would refuse."""
    assert text.endswith("\n")
    kinds: dict[str, str] = {}
    samples: Samples = {}
    family_name = ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            family_name = line.split(" ", 3)[2]
            assert family_name not in kinds, f"{family_name} comes twice"
            assert len(line.split(" ", 3)) == 4
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == family_name and kind in ("counter", "gauge", "histogram")
            kinds[name] = kind
        else:
            found = _SAMPLE.fullmatch(line)
            assert found, line
            name, labels = found[1], tuple(_LABEL.findall(found[2] or ""))
            base = re.sub("_(bucket|sum|count)$", "", name) if kinds.get(family_name) == "histogram" else name
            assert base == family_name, f"{name} stands under {family_name}"
            assert (name, labels) not in samples, line
            samples[name, labels] = float(found[3].replace("+Inf", "inf"))
    for name, kind in kinds.items():
        assert kind != "counter" or re.search("_total$", name), f"{name} is a counter by another name"
        if kind == "histogram":
            _check_histogram(name, samples)
    return samples


def _check_histogram(name: str, samples: Samples) -> None:
    for (sample, labels), count in samples.items():
        if sample != f"{name}_count":
            continue
        buckets = [
            (float(dict(other)["le"].replace("+Inf", "inf")), value)
            for (bucket, other), value in samples.items()
            if bucket == f"{name}_bucket" and other[:-1] == labels
        ]
        assert buckets == sorted(buckets) and [value for _, value in buckets] == sorted(value for _, value in buckets)
        assert buckets[-1] == (float("inf"), count) and (f"{name}_sum", labels) in samples


async def test_what_happened_can_be_read_off(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedEngine({"hi": "one two three"})) as daemon:
        before = parse((await daemon.client.get("/metrics")).text)
        assert before["reef_runs_total", (("status", "failed"),)] == 0
        for _ in range(3):
            await daemon.chat("hi")
        await daemon.client.post("/v1/chat/completions", json={"model": "scripted", "stream": True, "messages": []})
        await daemon.client.get("/nothing")
        samples = parse((await daemon.client.get("/metrics")).text)
        route = ("route", "/v1/chat/completions")
        assert samples["reef_requests_total", (route, ("status", "200"))] == 3
        assert samples["reef_requests_total", (route, ("status", "400"))] == 1
        assert samples["reef_requests_total", (("route", "other"), ("status", "404"))] == 1
        assert samples["reef_request_seconds_count", (route,)] == 4 and samples["reef_request_seconds_sum", (route,)] > 0
        assert samples["reef_first_token_seconds_count", ()] == 3
        assert samples["reef_generations_total", (("outcome", "ok"),)] == 3
        assert samples["reef_tokens_total", (("kind", "completion"),)] > 0
        assert samples["reef_commit_seconds_count", ()] >= 3 and samples["reef_commits_failed_total", ()] == 0
        assert samples["reef_records_total", (("scenario", "default"),)] == 3
        assert samples["reef_release_info", (("scenario", "default"), ("release", "r1"))] == 1
        assert samples["process_resident_memory_bytes", ()] > 1e6


def test_names_that_clients_choose_cannot_break_the_text() -> None:
    histogram = Histogram((1, 2))
    for value in (0.5, 1, 1.5, 99):
        histogram.observe(value)
    odd = 'a"b\\c\nd'
    samples = parse(
        "".join([*family("x", "A text.", "gauge", [({"l": odd}, 0.5)]), *histograms("y", "A text.", [({"l": odd}, histogram)])])
    )
    [label] = [labels for name, labels in samples if name == "x"]
    assert label == (("l", 'a\\"b\\\\c\\nd'),)
    assert [value for (name, _), value in samples.items() if name == "y_bucket"] == [2, 3, 4]
