"""From the settings to the rule that the store applies."""

from __future__ import annotations

from daemon.config import Config, RedactConfig
from daemon.redaction.redact import BUILT_IN, RedactionRule
from daemon.redaction.redactor import Redactor
from daemon.redaction.user_patterns import rules_of


def redaction_of(config: Config) -> RedactionRule:
    """Which scenarios are redacted, and by what."""
    whole = config.storage.redaction
    own = {name: config.for_scenario(name).storage.redaction for name in config.scenarios}
    different = {
        name: _redactor(settings) for name, settings in own.items() if (settings.patterns, settings.allow) != (whole.patterns, whole.allow)
    }
    return RedactionRule(whole.enabled, {name: settings.enabled for name, settings in own.items()}, _redactor(whole), different)


def _redactor(settings: RedactConfig) -> Redactor:
    return Redactor(rules_of(settings.patterns), settings.allow) if settings.patterns or settings.allow else BUILT_IN
