"""Choosing tokens: truncations, penalties, bias, seeds, log-probabilities and their alternatives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from daemon.engine.llama.sampling import Sampler, check_sampling, log_softmax
from daemon.errors import BadRequest, EngineError
from daemon.records import Sampling

LOGITS = np.array([1.0, 3.0, 2.0, -5.0], np.float32)


def _draws(sampling: Sampling, count: int = 300) -> set[int]:
    sampler = Sampler(sampling, [])
    return {sampler.choose(LOGITS)[0] for _ in range(count)}


def test_greedy_takes_the_best_and_reports_the_untouched_probability() -> None:
    token, logprob, entry = Sampler(Sampling(temperature=0), []).choose(LOGITS)
    assert entry is None
    assert token == 1
    assert logprob == pytest.approx(float(log_softmax(LOGITS)[1]), abs=1e-6)
    _, hot, _ = Sampler(Sampling(temperature=2.0, top_k=1), []).choose(LOGITS)
    assert hot == pytest.approx(logprob)


def test_truncations_keep_what_they_promise() -> None:
    assert _draws(Sampling(temperature=1, seed=1, top_k=2)) == {1, 2}
    assert _draws(Sampling(temperature=1, seed=1, top_p=0.5)) == {1}
    assert _draws(Sampling(temperature=1, seed=1, top_p=0.8)) == {1, 2}
    assert _draws(Sampling(temperature=1, seed=1, min_p=0.2)) == {1, 2}
    assert _draws(Sampling(temperature=5, seed=1)) == {0, 1, 2, 3}


def test_top_p_over_a_large_vocabulary_equals_a_full_sort() -> None:
    logits = np.random.default_rng(1).standard_normal(50_000).astype(np.float32) * 3
    order = np.argsort(-logits)
    share = np.cumsum(np.exp(logits[order].astype(np.float64)))
    allowed = set(order[: int(np.searchsorted(share / share[-1], 0.9)) + 1].tolist())
    sampler = Sampler(Sampling(temperature=1, top_p=0.9, seed=3), [])
    assert all(sampler.choose(logits)[0] in allowed for _ in range(50))


def test_penalties_count_what_was_said() -> None:
    sampler = Sampler(Sampling(temperature=0, presence_penalty=1.5), [])
    assert [sampler.choose(LOGITS)[0] for _ in range(2)] == [1, 2]
    assert Sampler(Sampling(temperature=0, repeat_penalty=3.0), [1]).choose(LOGITS)[0] == 2


@pytest.mark.parametrize("field", ["temperature", "top_p", "min_p", "presence_penalty", "repeat_penalty"])
def test_values_out_of_range_are_refused_by_name(field: str) -> None:
    for value in (-3.0, float("nan")):
        with pytest.raises(BadRequest) as caught:
            check_sampling(Sampling(**{field: value}), 4)  # type: ignore[arg-type]
        assert caught.value.param == field


@pytest.mark.parametrize("stops", [("",), ("a", ""), ("x" * 1001,), ("a",) * 65])
def test_stops_that_are_empty_too_long_or_too_many_are_refused(stops: tuple[str, ...]) -> None:
    check_sampling(Sampling(stop=("x" * 1000,) * 64), 4)
    with pytest.raises(BadRequest) as caught:
        check_sampling(Sampling(stop=stops), 4)
    assert caught.value.param == "stop"


class _Pieces:
    """Tokens a, b, c and the first byte of a character."""

    def piece(self, token: int, *, special: bool = False) -> bytes:
        return (b"a", b"b", b"c", b"\xc3")[token]


def test_a_choice_shows_the_alternatives_it_had() -> None:
    sampler = Sampler(Sampling(temperature=0, logit_bias=((1, -100.0),)), [], top_logprobs=2, pieces=_Pieces())
    token, logprob, entry = sampler.choose(LOGITS)
    normal = log_softmax(LOGITS)
    assert token == 2 and entry is not None
    assert (entry["token"], entry["bytes"], entry["logprob"]) == ("c", [99], logprob)
    assert entry["top_logprobs"] == [
        {"token": "b", "logprob": pytest.approx(float(normal[1]), abs=1e-6), "bytes": [98]},
        {"token": "c", "logprob": pytest.approx(float(normal[2]), abs=1e-6), "bytes": [99]},
    ]


def test_none_of_the_alternatives_is_none_and_all_are_all() -> None:
    assert (entry := Sampler(Sampling(temperature=0), [], top_logprobs=0, pieces=_Pieces()).choose(LOGITS).entry) is not None
    assert entry["top_logprobs"] == []
    never = np.array([1.0, -np.inf, 0.0, -2.0], np.float32)
    entry = Sampler(Sampling(temperature=0), [], top_logprobs=4, pieces=_Pieces()).choose(never).entry
    assert entry is not None and isinstance(entry["top_logprobs"], list)
    assert [shown["token"] for shown in entry["top_logprobs"] if isinstance(shown, dict)] == ["a", "c", "\ufffd"]


def test_bias_bans_forces_and_shifts() -> None:
    assert _draws(Sampling(temperature=100, seed=1, logit_bias=((1, -100.0), (0, -100.0)))) == {2, 3}
    assert _draws(Sampling(temperature=100, seed=1, logit_bias=((3, 100.0), (1, 50.0)))) == {3}
    assert Sampler(Sampling(temperature=0, logit_bias=((3, 9.0),)), []).choose(LOGITS)[0] == 3


@pytest.mark.parametrize("bias", [((4, 1.0),), ((-1, 1.0),), ((0, 100.5),), ((0, float("nan")),)])
def test_a_bias_out_of_range_is_refused(bias: tuple[tuple[int, float], ...]) -> None:
    with pytest.raises(BadRequest) as caught:
        check_sampling(Sampling(logit_bias=bias), 4)
    assert caught.value.param == "logit_bias"


def test_more_alternatives_than_openai_gives_are_refused() -> None:
    check_sampling(Sampling(), 4, 20)
    for count in (21, -1):
        with pytest.raises(BadRequest, match="top_logprobs"):
            check_sampling(Sampling(), 4, count)


@pytest.mark.parametrize("values", [[np.nan, 1.0], [1.0, np.nan], [np.inf, 1.0], [-np.inf, -np.inf]])
def test_logits_that_are_no_numbers_are_an_error_not_a_token(values: list[float]) -> None:
    with pytest.raises(EngineError):
        Sampler(Sampling(), []).choose(np.array(values, np.float32))


SETTINGS = st.builds(
    Sampling,
    temperature=st.sampled_from([0.0, 1e-30, 1e-4, 0.3, 1.0, 2.0, 100.0]),
    top_p=st.sampled_from([0.0, 0.3, 0.9, 0.999999, 1.0]),
    top_k=st.sampled_from([0, 1, 5, 300, 5000]),
    min_p=st.sampled_from([0.0, 0.05, 1.0]),
    seed=st.integers(-5, 5),
    presence_penalty=st.sampled_from([0.0, 1.5]),
    frequency_penalty=st.sampled_from([0.0, -0.5]),
    repeat_penalty=st.sampled_from([1.0, 1.3]),
    logit_bias=st.sampled_from([(), ((7, 5.0), (8, -100.0)), ((9, 100.0),)]),
)


@settings(max_examples=100, deadline=None)
@given(SETTINGS, st.integers(0, 10_000), st.sampled_from([10, 256, 700, 3001]), st.sampled_from([0.0, 0.5, 4.0, 60.0]))
def test_every_setting_draws_as_written_out_step_by_step(sampling: Sampling, seed: int, size: int, spread: float) -> None:
    """Against the plain formula: the token drawn is one of those that the truncations leave, and the log-probability is the model's."""
    rng = np.random.default_rng(seed)
    logits = (rng.standard_normal(size) * spread).astype(np.float32)
    logits[rng.integers(size, size=size // 8)] = -np.inf
    logits[0] = 1.0
    kept = logits.copy()
    ours, twin = Sampler(sampling, [3, 4]), Sampler(sampling, [3, 4])
    counts: dict[int, int] = {}
    recent = [3, 4]
    for _ in range(4):
        token, logprob, _ = ours.choose(logits)
        assert token == twin.choose(logits)[0]
        assert token in _left(sampling, logits, recent, counts)
        expected = float(log_softmax(logits)[token])
        hair = float(np.spacing(np.float32(abs(expected))))  # log-probabilities are float32: far from 0 their last bit is more than 2e-5
        assert logprob == pytest.approx(expected, abs=max(2e-5, hair))
        counts[token] = counts.get(token, 0) + 1
        recent.append(token)
    assert np.array_equal(logits, kept)


def _left(sampling: Sampling, logits: NDArray[np.float32], recent: list[int], counts: dict[int, int]) -> set[int]:
    """The tokens that may be drawn, within a hair of each limit."""
    values = logits.astype(np.float64)
    if sampling.repeat_penalty != 1.0:
        for token in set(recent):
            values[token] = values[token] / sampling.repeat_penalty if values[token] > 0 else values[token] * sampling.repeat_penalty
    for token, count in counts.items():
        values[token] -= sampling.presence_penalty + sampling.frequency_penalty * count
    if forced := [token for token, bias in sampling.logit_bias if bias == 100.0]:
        values[[token for token in range(len(values)) if token not in forced]] = -np.inf
    else:
        for token, bias in sampling.logit_bias:
            values[token] += bias if bias > -100 else -np.inf
    if not np.isfinite(values).any():  # nothing is left: neither bias nor penalties hold
        values = logits.astype(np.float64)
    if sampling.temperature < 1e-5:
        return set(np.flatnonzero(values >= values.max() - 1e-4).tolist())
    order = np.argsort(-values, kind="stable")
    if sampling.top_k:
        order = order[: sampling.top_k]
    shares = np.exp(values[order] - values[order[0]])
    before = np.cumsum(shares) - shares
    least = values[order[min(len(order) - 1, int((before <= sampling.top_p * shares.sum() * (1 + 1e-6)).sum()) - 1)]]
    if sampling.min_p:
        least = max(least, values[order[0]] + np.log(sampling.min_p))
    return {int(token) for token in order if values[token] >= least - 1e-4 and np.isfinite(values[token])}


@pytest.mark.parametrize(
    "sampling", [Sampling(), Sampling(temperature=0.7), Sampling(top_k=40), Sampling(top_p=0.999), Sampling(min_p=0.001)]
)
def test_draws_come_as_often_as_their_probability_says(sampling: Sampling) -> None:
    logits = np.full(1000, -np.inf, np.float32)
    logits[[3, 255, 256, 999]] = np.log([0.1, 0.2, 0.3, 0.4])
    wanted = np.array([0.1, 0.2, 0.3, 0.4]) ** (1 / sampling.temperature)
    sampler = Sampler(replace(sampling, seed=7), [])
    drawn = [sampler.choose(logits).token for _ in range(4000)]
    assert set(drawn) == {3, 255, 256, 999}
    for token, share in zip((3, 255, 256, 999), wanted / wanted.sum(), strict=True):
        assert drawn.count(token) / 4000 == pytest.approx(share, abs=0.03)
