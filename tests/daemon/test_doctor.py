"""The doctor names what is missing and what to type, and breaks on nothing."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from daemon import doctor
from daemon.doctor_checks import engine, machine
from daemon.doctor_checks.finding import Finding, State
from daemon.paths import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def found(findings: list[Finding], check: str) -> Finding:
    return next(finding for finding in findings if finding.check == check)


def test_a_fresh_machine_is_told_to_run_init(home: Home) -> None:
    findings = doctor.examine(home)
    assert found(findings, "home").hint == "reef init"
    assert found(findings, "tokens").hint == "reef init"
    assert found(findings, "python").state is State.OK
    assert found(findings, "model").state is State.OK
    assert "bytes" in found(findings, "training").sentence
    assert all(finding.hint for finding in findings if finding.state is State.FAIL)


def test_a_setting_that_does_not_hold_is_a_finding(home: Home) -> None:
    home.root.mkdir()
    home.config.write_text("server: {prot: 1}\n")
    finding = found(doctor.examine(home), "configuration")
    assert (finding.state, finding.hint) == (State.FAIL, "Did you mean 'port'?")


def test_a_missing_model_is_a_finding(home: Home) -> None:
    home.root.mkdir()
    home.config.write_text("engine: {model: /nowhere/x.gguf}\n")
    finding = found(doctor.examine(home), "engine")
    assert finding.state is State.FAIL
    assert "/nowhere/x.gguf" in finding.sentence


def test_a_port_in_use_is_a_finding(home: Home) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        home.root.mkdir()
        home.config.write_text(f"server: {{port: {taken.getsockname()[1]}}}\n")
        finding = found(doctor.examine(home), "port")
    assert finding.state is State.FAIL
    assert "server.port" in finding.hint


def test_a_token_that_others_can_read_is_a_finding(home: Home) -> None:
    home.client_token.parent.mkdir(parents=True)
    home.client_token.write_text("secret")
    home.client_token.chmod(0o644)
    finding = found(list(machine.tokens(home)), "tokens")
    assert finding.state is State.FAIL
    assert finding.hint == f"chmod 600 {home.client_token}"


def test_an_upstream_that_is_away_or_lacks_its_key_is_a_finding(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    from daemon.config import UpstreamConfig

    config = UpstreamConfig(kind="upstream", url="http://127.0.0.1:1/v1", model="m", api_key_env="REEF_TEST_KEY")
    monkeypatch.delenv("REEF_TEST_KEY", raising=False)
    assert "export REEF_TEST_KEY" in found(list(engine.check(config, home)), "engine").hint
    monkeypatch.setenv("REEF_TEST_KEY", "k")
    assert "does not answer" in found(list(engine.check(config, home)), "engine").sentence


def test_json_and_exit_code(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    home.root.mkdir()
    home.config.write_text("server: {prot: 1}\n")
    assert doctor.main(home, json_output=True) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["ok"] is False
    assert {"check", "state", "sentence", "hint"} == set(said["checks"][0])
    assert doctor.main(home) == 1
    assert "✗ missing" in capsys.readouterr().out
