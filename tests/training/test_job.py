"""The job folder is what the run process and the trainer agree on; a torn or wrong one must be refused with its line."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from daemon.errors import DataError
from daemon.training.job import RESULT_FILE, Sample, TrainingJob, memory_needed_bytes, read_job, read_result, write_job


def _job(**changes: object) -> TrainingJob:
    values = {"base": "/models/a.gguf", "base_sha256": "0" * 64, "objective": "a.b:C", "steps": 3, "batch_size": 2, **changes}
    return TrainingJob.model_validate(values)


def test_a_job_comes_back_as_it_was_written(tmp_path: Path) -> None:
    samples = [
        Sample(prompt=(1, 2), completion=(3, 4), logprobs=(-0.5, -1.5), weight=0.5, kind="replay"),
        Sample(prompt=(1,), completion=(5, 6, 7), mask=(True, False, True)),
    ]
    job = _job(settings={"divergence_weight": 2.0, "nested": {"list": [1, None]}})
    write_job(tmp_path / "job", job, samples)
    assert read_job(tmp_path / "job") == (job, samples)


def test_labels_are_the_counted_completion_tokens() -> None:
    assert Sample(prompt=(1, 2), completion=(3, 4, 5), mask=(True, False, True)).labels == (2, 4)
    assert Sample(prompt=(1, 2), completion=(3, 4)).labels == (2, 3)


@pytest.mark.parametrize(
    "fields", [{"mask": (True,)}, {"logprobs": (-1.0,)}, {"mask": (False, False)}, {"completion": ()}, {"prompt": ()}, {"weight": -1}]
)
def test_a_sample_that_does_not_add_up_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Sample.model_validate({"prompt": (1, 2), "completion": (3, 4), **fields})


def test_the_bad_line_is_named(tmp_path: Path) -> None:
    write_job(tmp_path, _job(), [Sample(prompt=(1,), completion=(2,))])
    with (tmp_path / "samples.jsonl").open("a") as stream:
        stream.write('{"prompt": [1], "completion": [2], "colour": 3}\n')
    with pytest.raises(DataError, match="line 2: colour"):
        read_job(tmp_path)


def test_an_empty_folder_and_an_empty_sample_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no training job"):
        read_job(tmp_path)
    write_job(tmp_path, _job(), [])
    with pytest.raises(DataError, match="nothing to train on"):
        read_job(tmp_path)


def test_a_second_try_does_not_show_the_first_ones_result(tmp_path: Path) -> None:
    (tmp_path / RESULT_FILE).write_text("{}")
    write_job(tmp_path, _job(), [Sample(prompt=(1,), completion=(2,))])
    with pytest.raises(DataError, match="without a result"):
        read_result(tmp_path)


def test_memory_grows_with_the_model() -> None:
    assert 2e9 < memory_needed_bytes(135_000_000) < 4e9
    assert memory_needed_bytes(1_700_000_000) > 20e9
