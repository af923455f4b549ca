"""What a release changed, in a few words."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Mapping

from pydantic import JsonValue, ValidationError

from daemon.harness_tree import RULES_PATH, SERVING_HINTS_PATH, SETTINGS_PATH, HarnessTree
from daemon.serving_hints import ServingHints
from daemon.versions.manifest import BaseModelFacts
from daemon.versions.release import LoRAFiles, Release

_MARK = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+")
_RULE = re.compile(_MARK.pattern + r"\S")
_SAME_RULE = 0.6  # likeness from which a rule is the other one reworded
_FEW_WORDS, _SHARED_WORDS = 10, 0.35
_COMPARED_RULES, _LONGEST_RULE = 40, 400
_KINDS = {"skills": "skill", "prompts": "prompt", "commands": "command", "extensions": "extension"}


def change_line(
    parent: Release | None,
    tree: HarnessTree,
    lora: LoRAFiles | None,
    base: BaseModelFacts | None = None,
    engine: Mapping[str, JsonValue] | None = None,
) -> str:
    """Such as `+2 rules −1 skill · LoRA r16 (9.4 MB)`; `no change` where both are equal.

    Args:
        base: of the new one; None: the parent's, as `engine` too.
    """
    before = parent.tree if parent else HarnessTree()
    parts = [*_base(parent, base), _rules(before, tree), *_entries(before, tree), *_hints(before, tree), _settings(before, tree)]
    parts += [_lora(parent.lora if parent else None, lora), *_engine(parent, engine)]
    parts = [part for part in parts if part]
    if not parts and parent is None:
        return "the base model, without LoRA or harness"
    return " · ".join(parts) or "no change"


def changed_to(before: Release, after: Release) -> str:
    """What differs from one release to another, whichever is the older."""
    return change_line(before, after.tree, after.lora, after.manifest.base, after.manifest.engine)


def _base(parent: Release | None, base: BaseModelFacts | None) -> list[str]:
    if parent is None or base is None:
        return []
    was = parent.manifest.base
    if not was.same_weights(base):
        return [f"base model {was.model} → {base.model}"]
    return ["chat template"] if was.template_sha256 != base.template_sha256 else []


def _engine(parent: Release | None, engine: Mapping[str, JsonValue] | None) -> list[str]:
    """`context 2048 → 4096`. A setting that one side does not name is none that changed."""
    if parent is None or engine is None:
        return []
    was = parent.manifest.engine
    names = [name for name in sorted(was.keys() & engine.keys()) if was[name] != engine[name]]
    return [f"{name.removesuffix('_tokens').replace('_', ' ')} {was[name]} → {engine[name]}" for name in names]


def _lora(before: LoRAFiles | None, after: LoRAFiles | None) -> str:
    if after is None:
        return f"{_brief(before)} taken off" if before is not None else ""
    if before is None:
        return lora_words(after)
    return f"another {lora_words(after)}" if before.id != after.id else ""


def _brief(lora: LoRAFiles) -> str:
    rank = lora.details.get("rank")
    return f"LoRA r{rank}" if rank else "LoRA"


def lora_words(lora: LoRAFiles) -> str:
    """`LoRA r16 (9.4 MB)`: its rank, and what the engine loads."""
    return f"{_brief(lora)} ({lora.served_bytes / 1e6:.1f} MB)"


def _count(added: int, removed: int, noun: str) -> str:
    def words(number: int) -> str:
        return noun if number == 1 else f"{noun}s"

    signs = ([f"+{added} {words(added)}"] if added else []) + ([f"−{removed} {words(removed)}"] if removed else [])
    return " ".join(signs)


def _rules(before: HarnessTree, after: HarnessTree) -> str:
    old, new = before.files.get(RULES_PATH, ""), after.files.get(RULES_PATH, "")
    if old == new:
        return ""
    was = Counter(line.strip() for line in old.splitlines() if _RULE.match(line))
    now = Counter(line.strip() for line in new.splitlines() if _RULE.match(line))
    added, removed = list((now - was).elements()), list((was - now).elements())
    edited = _edited(removed, added)
    part = _count(len(added) - edited, len(removed) - edited, "rule")
    if edited:
        part = f"{part} {edited} rule{'s' if edited > 1 else ''} edited".strip()
    return part or "rules edited"


def _edited(removed: list[str], added: list[str]) -> int:
    """How many of the removed rules stand, in other words, among the added ones."""
    left, gone = ([_MARK.sub("", rule)[:_LONGEST_RULE] for rule in rules[:_COMPARED_RULES]] for rules in (added, removed))
    for rule in gone:
        likeness = [_likeness(rule, other) for other in left]
        if likeness and max(likeness) >= _SAME_RULE:
            del left[likeness.index(max(likeness))]
    return min(len(added), _COMPARED_RULES) - len(left)


def _likeness(rule: str, other: str) -> float:
    """0 where longer rules share few words: most pairs do, and a rollback waits while all are compared."""
    words, others = Counter(rule.split()), Counter(other.split())
    shared, both = (words & others).total(), words.total() + others.total()
    if both > _FEW_WORDS and 2 * shared < _SHARED_WORDS * both:
        return 0.0
    return difflib.SequenceMatcher(None, rule, other, autojunk=False).ratio()


def _entries(before: HarnessTree, after: HarnessTree) -> list[str]:
    """Skills, prompts, commands and extensions, counted by name; then other files."""
    parts: list[str] = []
    for folder, noun in _KINDS.items():
        was, now = _named(before, folder), _named(after, folder)
        part = _count(len(now.keys() - was.keys()), len(was.keys() - now.keys()), noun)
        edited = sum(was[name] != now[name] for name in was.keys() & now.keys())
        if edited:
            part = f"{part} {edited} {noun}{'s' if edited > 1 else ''} edited".strip()
        parts.append(part)
    known = {RULES_PATH, SETTINGS_PATH, SERVING_HINTS_PATH}
    others = {path for path in {*before.files, *after.files} if path not in known and path.split("/")[0] not in _KINDS}
    changed = sum(before.files.get(path) != after.files.get(path) for path in others)
    parts.append(f"{changed} other file{'s' if changed > 1 else ''}" if changed else "")
    return parts


def _named(tree: HarnessTree, folder: str) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for path, text in tree.files.items():
        first, _, rest = path.partition("/")
        if first == folder and rest:
            found.setdefault(rest.split("/")[0], {})[rest] = text
    return found


def _hints(before: HarnessTree, after: HarnessTree) -> list[str]:
    old, new = before.files.get(SERVING_HINTS_PATH, ""), after.files.get(SERVING_HINTS_PATH, "")
    if old == new:
        return []
    was, now = _read_hints(old), _read_hints(new)
    if was is None or now is None:
        return ["serving hints edited"]
    shown = {(one.prompt, one.reply) for one in now.demonstrations}
    earlier = {(one.prompt, one.reply) for one in was.demonstrations}
    parts = [_count(len(shown - earlier), len(earlier - shown), "demonstration")]
    parts.append("system prefix" if was.system_prefix != now.system_prefix else "")
    parts.append("sampling" if was.sampling != now.sampling else "")
    return parts if any(parts) else ["demonstrations reordered"]


def _read_hints(text: str) -> ServingHints | None:
    try:
        return ServingHints.model_validate_json(text) if text else ServingHints()
    except ValidationError:
        return None


def _settings(before: HarnessTree, after: HarnessTree) -> str:
    return "agent settings" if before.files.get(SETTINGS_PATH) != after.files.get(SETTINGS_PATH) else ""
