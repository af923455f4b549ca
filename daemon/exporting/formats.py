"""The formats by name, and the check of a line against its format's schema."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from jsonschema import Draft202012Validator

from daemon.errors import BadRequest
from daemon.exporting.atif import ATIFFormat
from daemon.exporting.conversation import Format
from daemon.exporting.openai_chat import OpenAIFormat
from daemon.exporting.records import RecordFormat
from daemon.exporting.sharegpt import ShareGPTFormat
from daemon.exporting.trl import DPOFormat, KTOFormat
from daemon.records import JSONObject

FORMATS: Mapping[str, Format] = {
    made.name: made for made in (OpenAIFormat(), ShareGPTFormat(), KTOFormat(), DPOFormat(), ATIFFormat(), RecordFormat())
}


_PLACES = re.compile(r"\[\d+\]")


def format_of(name: str) -> Format:
    """Raises `BadRequest` for a name that is none."""
    if name not in FORMATS:
        raise BadRequest(f"There is no format {name[:40]!r}.", f"There are: {', '.join(FORMATS)}.", param="format")
    return FORMATS[name]


def problem(name: str, line: JSONObject) -> str | None:
    """Where a line is not as the schema of the format `name` says, without what stands there; None: it is."""
    error = next(_validator(name).iter_errors(line), None)
    return None if error is None else f"{_PLACES.sub('[]', error.json_path)} does not fit the format ({error.validator})"


@cache
def _validator(name: str) -> Draft202012Validator:
    schema = json.loads(files("daemon.exporting.schemas").joinpath(f"{name}.json").read_text("utf-8"))
    return Draft202012Validator(schema)
