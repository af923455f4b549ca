"""Commands as skills, hooks beside Reef's own, and what the hook answers."""

from __future__ import annotations

import io
import json
import subprocess
from pathlib import Path

import pytest

from adapters.codex import hook
from adapters.codex.adapter import CodexAdapter
from adapters.codex.events import read_events
from adapters.codex.hooks import trusted
from daemon.errors import DataError
from daemon.harness import typed
from daemon.harness.adapter import InstallContext, Rendering
from daemon.harness.asking import Trouble
from daemon.harness.installing import Place
from daemon.harness_tree import HarnessTree

HOOKS = json.dumps({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "true"}]}], "Stop": []}})


def context(tmp_path: Path, files: dict[str, str]) -> InstallContext:
    return InstallContext(
        tmp_path / "codex", "http://127.0.0.1:9", tmp_path / "token", "small", 32_768, 4096, "codex", HarnessTree(files), "r3"
    )


def rendered(tmp_path: Path, files: dict[str, str]) -> Rendering:
    return CodexAdapter().render(context(tmp_path, files), lambda path: None)


def test_a_command_is_a_skill_that_only_the_user_calls(tmp_path: Path) -> None:
    tree = {
        "commands/ship.md": "---\ndescription: 'Ship: it'\n---\nShip $ARGUMENTS.\n",
        "prompts/look.md": "# Look around\n\nLook.",
        "commands/Not here.md": "x",
    }
    rendering = rendered(tmp_path, tree)
    assert 'name: ship\ndescription: "Ship: it"\n' in rendering.files["skills/ship/SKILL.md"]
    assert 'description: "Look around"' in rendering.files["skills/look/SKILL.md"]
    assert "allow_implicit_invocation: false" in rendering.files["skills/ship/agents/openai.yaml"]
    assert rendering.notes == ("commands/Not here.md has no place in codex: the name of a command must be a-z, 0-9 and hyphens.",)
    adapter, files = CodexAdapter(), dict(rendering.files)
    assert adapter.read_back(context(tmp_path, tree), files).files == tree
    files["skills/ship/SKILL.md"] = files["skills/ship/SKILL.md"].replace("Ship $ARGUMENTS.", "Ship $ARGUMENTS today.")
    del files["skills/look/SKILL.md"]
    back = adapter.read_back(context(tmp_path, tree), files).files
    assert back == {
        **{path: tree[path] for path in tree if "look" not in path},
        "commands/ship.md": tree["commands/ship.md"].replace("S.", "S today."),
    }


@pytest.mark.parametrize(
    "paths",
    [("commands/a.md", "prompts/a.md"), ("commands/a.md", "skills/a/SKILL.md"), ("skills/reef-good/SKILL.md",), ("prompts/reef-bad.md",)],
)
def test_two_of_one_name_and_names_of_reefs_own_are_refused(tmp_path: Path, paths: tuple[str, ...]) -> None:
    with pytest.raises(DataError, match=r"Reef's own|same skill"):
        rendered(tmp_path, dict.fromkeys(paths, "---\nname: a\ndescription: b\n---\n"))


def test_hooks_of_a_release_stand_behind_reefs_and_come_back(tmp_path: Path) -> None:
    tree = {"extensions/hooks.json": HOOKS, "extensions/check.sh": "#!/bin/sh\ntrue\n", "extensions/data.txt": "x"}
    rendering = rendered(tmp_path, tree)
    hooks = json.loads(rendering.files["hooks.json"])["hooks"]
    assert list(hooks) == ["SessionStart", "UserPromptSubmit", "PreToolUse", "Stop"] and "reef-hook.sh" in json.dumps(hooks["SessionStart"])
    assert rendering.executable == {"extensions/check.sh"}
    adapter, files = CodexAdapter(), dict(rendering.files)
    assert adapter.read_back(context(tmp_path, tree), files).files == tree
    hooks["SessionStart"].append({"hooks": [{"type": "command", "command": "mine"}]})
    files["hooks.json"] = json.dumps({"hooks": hooks})
    back = json.loads(adapter.read_back(context(tmp_path, tree), files).files["extensions/hooks.json"])
    assert set(back["hooks"]) == {"SessionStart", "PreToolUse"} and "reef-hook" not in json.dumps(back)
    state = rendering.files["config.toml"]
    assert state.count("trusted_hash") == 3 and "hooks.json:pre_tool_use:0:0" in state
    assert rendered(tmp_path, {}).files["config.toml"].count("trusted_hash") == 2


def test_a_hook_is_known_by_the_hash_that_codex_gives_it() -> None:
    """Taken from what codex 0.171.0 answers to hooks/list."""
    hooks = {
        "SessionStart": [{"hooks": [{"type": "command", "command": "echo 'ünï' \"x\"", "timeout": 5}]}],
        "PreToolUse": [
            {
                "matcher": "Bash",
                "hooks": [
                    {"type": "command", "command": "true"},
                    {"type": "command", "command": "false", "async": True, "timeout": 7, "statusMessage": "Looking"},
                ],
            }
        ],
        "UserPromptSubmit": [{"matcher": "x", "hooks": [{"type": "command", "command": "b"}]}],
        "PostToolUse": [{"matcher": "", "hooks": [{"type": "command", "command": "c", "timeout": 0}]}],
    }
    found = trusted(json.dumps({"hooks": hooks}), Path("/a"))
    assert {name.removeprefix("/a/hooks.json:"): digest[7:19] for name, digest in found.items()} == {
        "session_start:0:0": "7fe12ba461b9",
        "pre_tool_use:0:0": "39057ebd30cc",
        "pre_tool_use:0:1": "a93e4f116c7b",
        "user_prompt_submit:0:0": "69824ff97246",
        "post_tool_use:0:0": "f44253fbd080",
    }


def test_the_hook_starts_python_only_where_there_is_something_to_do(tmp_path: Path) -> None:
    files = rendered(tmp_path, {}).files
    for name in ("reef-hook.sh", "reef.json"):
        (tmp_path / "codex" / "agent").mkdir(parents=True, exist_ok=True)
        (tmp_path / "codex" / "agent" / name).write_text(files[name])
    (tmp_path / "token").write_text("x")
    script = tmp_path / "codex" / "agent" / "reef-hook.sh"
    subprocess.run(["sh", "-n", str(script)], check=True)

    def said(event: str) -> str:
        return subprocess.run(["sh", str(script)], input=event, capture_output=True, text=True, check=True).stdout

    assert said('{"hook_event_name":"UserPromptSubmit","prompt":"hello"}') == ""
    assert "reef up" in json.loads(said('{"hook_event_name":"SessionStart","source":"startup"}'))["systemMessage"]
    assert "no answer of Reef's" in json.loads(said('{"hook_event_name":"UserPromptSubmit","prompt":"$reef-good"}'))["reason"]


@pytest.mark.parametrize(
    ("prompt", "score", "note"),
    [
        ("$reef-good", 1, None),
        ("  $reef-bad it guessed\nthe colour ", -1, "it guessed\nthe colour"),
        ("[$reef-good](/a/SKILL.md) yes", 1, "yes"),
    ],
)
def test_feedback_goes_to_the_last_answer_of_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prompt: str, score: int, note: str | None
) -> None:
    (tmp_path / "reef.json").write_text(rendered(tmp_path, {}).files["reef.json"])
    transcript = tmp_path / "rollout.jsonl"
    transcript.write_text('{"payload":{"response_id":"resp_0a"}}\n{"payload":{"response_id":"resp_0b"}}\n{"x":1}\n')
    sent: list[object] = []
    monkeypatch.setattr(typed, "ask", lambda told, method, path, wait_s, body: sent.append((method, path, body)) or {})
    event = {"hook_event_name": "UserPromptSubmit", "prompt": prompt, "session_id": "s", "transcript_path": str(transcript)}
    answer = hook.answer_to(event, tmp_path / "reef.json")
    assert answer["decision"] == "block" and "Reef has it" in str(answer["reason"])
    body = {"references": ["rec_0b"], "score": score, "metadata": {"client": "codex", "release": "r3"}}
    assert sent == [("POST", "/reef/report", {**body, **({"feedback": note} if note else {})})]


def test_feedback_finds_the_answer_where_another_server_gave_it_its_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "reef.json").write_text(rendered(tmp_path, {}).files["reef.json"])
    transcript = tmp_path / "rollout.jsonl"
    transcript.write_text('{"payload":{"response_id":"resp_theirs"}}\n')
    turns = [{"receipt": "rec_a", "number": 1}, {"receipt": "rec_b", "number": 2}, {"receipt": "rec_title", "number": None}]
    judged: list[object] = []

    def ask(told: object, method: str, path: str, wait_s: float, body: dict[str, object] | None = None) -> dict[str, object]:
        if body is None:
            assert path.endswith("/sessions/s?limit=20")
            return {"turns": turns}
        if body["references"] == ["rec_theirs"]:
            raise Trouble("The scenario codex holds no record rec_theirs.", 400)
        judged.append(body["references"])
        return {}

    monkeypatch.setattr(typed, "ask", ask)
    event = {"hook_event_name": "UserPromptSubmit", "prompt": "$reef-good", "session_id": "s", "transcript_path": str(transcript)}
    assert "Reef has it" in str(hook.answer_to(event, tmp_path / "reef.json")["reason"]) and judged == [["rec_b"]]
    turns.clear()
    assert "holds no record" in str(hook.answer_to(event, tmp_path / "reef.json")["reason"]), "a session that Reef does not know"


def test_what_the_first_release_would_bring_is_shown_line_by_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    binding = tmp_path / "reef.json"
    binding.write_text(json.dumps({**json.loads(rendered(tmp_path, {}).files["reef.json"]), "release_id": ""}))
    monkeypatch.setattr(typed, "changes", lambda told, wait_s=0.0: {"head": "r2", "line": "+2 rules", "harness_changed": True})
    files = {"skills/a/SKILL.md": "x\n" * 50, "AGENTS.md": "- One.\n- Two.\n"}
    monkeypatch.setattr(typed, "ask", lambda told, method, path, wait_s: {"files": files if path == "/reef/harness?release_id=r2" else {}})
    said = str(hook.answer_to({"hook_event_name": "UserPromptSubmit", "prompt": "$reef-diff"}, binding)["reason"]).splitlines()
    assert said[:5] == ["Reef r2: +2 rules", "AGENTS.md", "  + - One.", "  + - Two.", "skills/a/SKILL.md"]
    assert said[-1] == "… 14 more lines: reef show r2 --files -s codex" and len(said) == 42


def test_commands_are_answered_in_codex_own_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    binding = tmp_path / "reef.json"
    binding.write_text(rendered(tmp_path, {}).files["reef.json"])
    found = {"head": "r4", "line": "+1 rule", "model": "small", "context_tokens": 32_768, "held": []}
    for module in (typed, hook):
        monkeypatch.setattr(module, "changes", lambda told, wait_s=0.0: found)
    monkeypatch.setattr(typed, "ask", lambda *_, **__: {"scenarios": []})

    def said(prompt: str) -> str:
        return str(hook.answer_to({"hook_event_name": "UserPromptSubmit", "prompt": prompt}, binding)["reason"])

    start = {"hook_event_name": "SessionStart", "source": "startup"}
    assert hook.answer_to(start, binding) == {"systemMessage": "Reef r3 → r4: +1 rule; $reef-update, $reef-diff, $reef-skip"}
    assert "r4: +1 rule; $reef-update" in said("$reef-status")
    assert said("$reef-skip").startswith("r4 is skipped") and hook.answer_to(start, binding) == {}
    assert "$reef-why run the tests" in said("$reef-why")


@pytest.mark.parametrize("prompt", ["Say $reef-good to it", "$reef-goodness", "$reef-nothing", "good"])
def test_any_other_message_goes_to_the_model(tmp_path: Path, prompt: str) -> None:
    assert hook.answer_to({"hook_event_name": "UserPromptSubmit", "prompt": prompt}, tmp_path / "nothing") == {}


def test_what_is_no_event_is_ignored_and_a_damaged_binding_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("not json"))
    hook.main()
    told = hook.answer_to({"hook_event_name": "SessionStart", "source": "startup"}, tmp_path / "reef.json")
    assert "reef install" in str(told["systemMessage"])
    assert hook.answer_to({"hook_event_name": "SessionStart", "source": "compact"}, tmp_path / "reef.json") == {}


def test_the_events_decide_whether_a_task_was_done() -> None:
    started = '{"type":"thread.started","thread_id":"t"}'
    message = '{"type":"item.completed","item":{"type":"agent_message","text":"Done."}}'
    over = '{"type":"turn.completed","usage":{"input_tokens":5,"output_tokens":2}}'
    outcome = read_events(["Reading…", started, '{"type":"error","message":"Reconnecting"}', message, over])
    assert (outcome.reply, outcome.session, outcome.error, outcome.input_tokens, outcome.output_tokens) == ("Done.", "t", "", 5, 2)
    assert read_events([started, '{"type":"turn.failed","error":{"message":"no time"}}']).error == "no time"
    assert "stopped before" in read_events([started, message]).error


def test_skills_that_codex_brings_along_are_none_of_the_harness(tmp_path: Path) -> None:
    pictures = tmp_path / "codex" / "agent" / "skills" / ".system" / "imagegen"
    pictures.mkdir(parents=True)
    (pictures / "picture.png").write_bytes(b"\x89PNG\xff")
    assert Place(tmp_path / "codex").current(CodexAdapter.reads) == {}
