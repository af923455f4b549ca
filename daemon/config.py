"""Every setting, its type, its default and what it means. Reading files is `daemon.config_load`.

The docstring below each field is its documentation: `docs/configuration.md` is made of them.
"""

from __future__ import annotations

import ipaddress
import json
import re
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, field_validator, model_validator

from daemon.errors import ConfigError
from daemon.paths import Home
from daemon.redaction.user_patterns import rules_of

_UNITS = {
    "B": 1,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "TiB": 1 << 40,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
}
_FACTORS = {"": 1, **{name.upper(): size for name, size in _UNITS.items()}}
_HOURS = re.compile(r"([01]\d|2[0-3]):[0-5]\d-([01]\d|2[0-3]):[0-5]\d")
SCENARIO_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
SCENARIO_SECTIONS = ("reef", "teacher", "training", "learn", "evaluation", "storage")
"""What a scenario may set for itself; server and engine are one a daemon."""


def parse_size(value: object) -> object:
    """Turn `20GiB` or `500 MB` into bytes; anything that is no text is left to the type check."""
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", value)
    if match is None or match[2].upper() not in _FACTORS:
        raise ValueError("write a size such as 20GiB, 500MB or a number of bytes")
    return int(float(match[1]) * _FACTORS[match[2].upper()])


def write_size(size_bytes: int) -> str:
    """The shortest text that `parse_size` reads as `size_bytes`: `20GiB`, `500MB`."""
    exact = [f"{size_bytes // unit}{name}" for name, unit in _UNITS.items() if size_bytes % unit == 0]
    return min(exact, key=len) if size_bytes else "0"


Bytes = Annotated[int, BeforeValidator(parse_size), Field(ge=0)]
Auto = Literal["auto"]
LearnMode = Literal["auto", "manual", "off"]
Wire = Literal["chat", "completions", "responses", "messages"]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)


class ReefConfig(Section):
    """What learns: the recipe, and beside it the recipe's own settings, which its `Settings` model validates."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True, use_attribute_docstrings=True)
    __pydantic_extra__: dict[str, JsonValue] = Field(init=False)

    recipe: str = Field(default="sft", min_length=1)
    """The learning method: an installed name (`sft`, `demos`) or a dotted path `package.module:Class`."""

    @property
    def settings(self) -> dict[str, JsonValue]:
        """Everything under `reef:` but the recipe's name."""
        return dict(self.__pydantic_extra__)


class ServerConfig(Section):
    """Where the daemon listens and whom it answers."""

    host: str = "127.0.0.1"
    """The address to listen on. Anything but a loopback address needs `expose: true`."""
    port: int = Field(default=8900, ge=0, le=65535)
    """The TCP port; 0 takes a free one."""
    allowed_hosts: tuple[str, ...] = ()
    """Further names that a request's Host header may carry, with their port where it is not 80."""
    allowed_origins: tuple[str, ...] = ()
    """Web pages that may call the daemon, such as `http://localhost:3000`. There is no wildcard."""
    expose: bool = False
    """Whether an address that other machines can reach is allowed."""
    require_token: bool = True
    """False lets clients on a loopback address in without a token, with the client's rights."""

    @field_validator("allowed_origins", "allowed_hosts")
    @classmethod
    def _no_wildcard(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if any("*" in entry for entry in value):
            raise ValueError("name each one: a wildcard is not accepted")
        return value

    @model_validator(mode="after")
    def _loopback(self) -> ServerConfig:
        if not self.is_loopback and not self.expose:
            raise ValueError(f"{self.host} can be reached from other machines: set expose: true if you mean it")
        if not self.is_loopback and not self.require_token:
            raise ValueError("require_token: false is for loopback addresses only")
        return self

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


class LlamaConfig(Section):
    """The engine that ships: llama.cpp in a child process."""

    kind: Literal["llama"] = "llama"
    """`llama` runs a GGUF file here; `upstream` passes requests to another server."""
    model: str = Field(default="embedded", min_length=1)
    """`embedded`, the path of a .gguf file, the name of one in the home's `models` folder, or `hf:owner/repo/file.gguf` once pulled."""
    context: Auto | Annotated[int, Field(ge=256)] = "auto"
    """Tokens a stream may hold; `auto` takes the model's own window, at most 32768, and less where half of the free memory is less."""
    streams: int = Field(default=4, ge=1, le=64)
    """How many requests are computed at once."""
    prefix_cache: Auto | Bytes = "auto"
    """Memory, such as `2GiB`, for conversations that have no place among the streams now, so that they go on without being read again.
    `auto` takes as much as the streams' own places, at most an eighth of the free memory; 0 keeps none. More than half
    of the free memory is never taken, and what is taken is taken at the start."""
    threads: Auto | Annotated[int, Field(ge=1)] = "auto"
    """Threads that compute; `auto` takes the physical cores."""
    gpu_layers: Auto | Annotated[int, Field(ge=0)] = "auto"
    """Layers on the graphics processor; `auto` takes all where the build has one."""


class UpstreamConfig(Section):
    """Another server as the engine: an OpenAI-compatible one, or one that speaks Anthropic's messages."""

    kind: Literal["upstream"]
    """`llama` runs a GGUF file here; `upstream` passes requests to another server."""
    url: str = Field(pattern=r"^https?://[^\s]+$")
    """The base URL, with its `/v1`."""
    model: str = Field(min_length=1)
    """The model's name at that server."""
    api_key_env: str | None = None
    """The environment variable that holds its key; the key itself is never stored."""
    wires: tuple[Wire, ...] = Field(default=("chat", "completions"), min_length=1)
    """What it speaks: `chat`, `completions`, `responses`, `messages`. Requests on these are passed on unchanged, others translated."""


EngineConfig: TypeAlias = LlamaConfig | UpstreamConfig


class TeacherConfig(Section):
    """A stronger model that reflects, judges and proposes. Absent: the served model."""

    url: str = Field(pattern=r"^https?://[^\s]+$")
    """The base URL, with its `/v1`."""
    model: str = Field(min_length=1)
    """The model's name at that server."""
    api_key_env: str | None = None
    """The environment variable that holds its key; the key itself is never stored."""
    tokens_per_day: int | None = Field(default=None, ge=0)
    """Tokens that learning may spend there a day; absent: no limit."""
    cost_per_day: float | None = Field(default=None, ge=0)
    """Money that learning may spend there a day, in the server's currency; absent: no limit."""


class TrainingConfig(Section):
    """How a LoRA is trained."""

    backend: Literal["peft"] = "peft"
    """What trains."""
    rank: int = Field(default=16, ge=1, le=256)
    """The LoRA's rank; its alpha is twice that."""
    max_minutes: float = Field(default=30, gt=0)
    """A training is stopped after this long."""
    nice: int = Field(default=19, ge=0, le=19)
    """The trainer's niceness; 19 yields to everything else."""


class LearnConfig(Section):
    """When the recipe runs by itself."""

    mode: LearnMode = "auto"
    """`auto` runs when a scenario is idle and has enough new experience; `manual` waits for `reef evolve`; `off` refuses runs."""
    idle_s: float = Field(default=300, ge=0)
    """Seconds without a request after which a scenario counts as idle."""
    hours: str = "always"
    """`always`, or the hours in which runs may start, such as `22:00-07:00`."""
    on_battery: bool = False
    """Whether to run on battery power."""

    @field_validator("hours")
    @classmethod
    def _hours(cls, value: str) -> str:
        if value != "always" and not _HOURS.fullmatch(value):
            raise ValueError("write always, or hours such as 22:00-07:00")
        return value


class EvaluationConfig(Section):
    """How a candidate is judged before it may serve."""

    tasks: Path | None = None
    """The folder of tasks, one folder a scenario; absent: `tasks` in the home."""
    gate: Literal["paired", "floor", "review"] = "paired"
    """`paired` promotes on evidence, `floor` on a minimum, `review` asks a person."""
    alpha: float = Field(default=0.1, gt=0, lt=1)
    """The largest chance of promoting what is no better."""
    probe_max_rise: float = Field(default=0.05, ge=0)
    """How far the mean token loss on general text may rise, as a fraction."""

    @field_validator("tasks")
    @classmethod
    def _expand(cls, value: Path | None) -> Path | None:
        return value.expanduser() if value else None

    def tasks_folder(self, home: Home) -> Path:
        return self.tasks or home.tasks


class RedactConfig(Section):
    """What counts as a secret beside what Reef knows, and what does not."""

    enabled: bool = True
    """Whether secrets are replaced at all."""
    patterns: dict[str, str] = {}
    """Patterns of your own by name, such as `{staff-id: 'EMP-\\d{6,8}'}`:
    Python's regular expressions, each repeat bounded and none nested."""
    allow: tuple[str, ...] = ()
    """Texts that are no secrets though they look like one; a `*` at the end stands for any rest, such as `sk-example-*`."""

    @field_validator("patterns")
    @classmethod
    def _quick(cls, value: dict[str, str]) -> dict[str, str]:
        try:
            rules_of(value)
        except ConfigError as error:
            raise ValueError(str(error)) from error
        return value

    @field_validator("allow")
    @classmethod
    def _narrow(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if any(len(text.rstrip("*")) < 4 for text in value):
            raise ValueError("an allowed text has four characters at least, beside the * at its end")
        return value


class StorageConfig(Section):
    """What is kept."""

    retention_bytes: Bytes = 20 << 30
    """How much experience to keep, such as `20GiB`. Above it the oldest sessions are removed; 0 keeps everything."""
    retention_days: float = Field(default=0, ge=0)
    """Sessions that have been idle for more days than this are removed; 0 keeps them whatever their age."""
    keep_releases: int = Field(default=20, ge=0)
    """How many of the newest releases keep their weights when `reef gc` makes room; 0 keeps the weights of all."""
    redact: bool | RedactConfig = True
    """Whether secrets are replaced before anything is stored; or an object with `enabled`, `patterns` and `allow`."""

    @property
    def redaction(self) -> RedactConfig:
        """`redact` written out."""
        return RedactConfig(enabled=self.redact) if isinstance(self.redact, bool) else self.redact


class Config(Section):
    """All settings of one daemon."""

    reef: ReefConfig = ReefConfig()
    server: ServerConfig = ServerConfig()
    engine: EngineConfig = Field(default=LlamaConfig(), discriminator="kind")
    teacher: TeacherConfig | None = None
    training: TrainingConfig = TrainingConfig()
    learn: LearnConfig = LearnConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    storage: StorageConfig = StorageConfig()
    scenarios: dict[str, dict[str, JsonValue]] = {}
    """Any of the sections but server and engine, per scenario; `recipe: NAME` is short for `reef: {recipe: NAME}`."""

    def for_scenario(self, name: str) -> Config:
        """The settings that hold for one scenario; this object where it sets nothing of its own."""
        own = self.scenarios.get(name)
        if not own:
            return self
        data = self.model_dump(mode="json", exclude={"scenarios"})
        for section, value in expand_scenario(own).items():
            data[section] = merge_section(section, data.get(section), value)
        return Config.model_validate_json(json.dumps(data))


def expand_scenario(own: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Write `recipe: NAME` out as `reef: {recipe: NAME}`."""
    sections = {name: value for name, value in own.items() if name != "recipe"}
    if "recipe" in own:
        reef = sections.get("reef")
        sections["reef"] = {"recipe": own["recipe"], **(reef if isinstance(reef, dict) else {})}
    return sections


def merge_section(section: str, below: JsonValue, above: JsonValue) -> JsonValue:
    """Lay one source's section over an earlier one's, key by key.

    Settings belong to their recipe, and an engine's to its kind: a source that names another one starts that section anew.
    """
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    owner = {"reef": "recipe", "engine": "kind"}.get(section)
    if owner and owner in above and above[owner] != below.get(owner, "llama" if section == "engine" else None):
        return above
    return {**below, **above}
