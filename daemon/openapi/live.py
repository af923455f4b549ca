"""What an app that stays open follows."""

from __future__ import annotations

from daemon.openapi.operation import Operation
from daemon.openapi.schema import INTEGER, NUMBER, OBJECT, TEXT, array, obj

LIVE = (
    Operation(
        "GET",
        "/reef/engine",
        "What computes, how fast, for whom, in how much memory.",
        "State",
        {
            200: obj(
                {
                    "engine": OBJECT,
                    "uptime_s": NUMBER,
                    "in_flight": INTEGER,
                    "streams": array(obj({"scenario": TEXT, "session": TEXT, "release_id": TEXT, "requests": INTEGER})),
                    "rates": obj({"interval_s": NUMBER, "generated": array(NUMBER), "read": array(NUMBER)}),
                    "last_misses": array(OBJECT),
                    "learn": OBJECT,
                    "memory_bytes": INTEGER,
                    "processes": array(obj({"what": TEXT, "pid": INTEGER, "rss_bytes": INTEGER})),
                }
            )
        },
    ),
    Operation(
        "GET",
        "/reef/events",
        "Server-sent events without end: `head`, `records`, `runs`, `engine`, each when that side of a scenario changed.",
        "State",
        {200: TEXT},
        media="text/event-stream",
    ),
)
