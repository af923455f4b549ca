"""The tables, as numbered migrations. They are only ever appended; the number is `PRAGMA user_version`.

How a conversation is kept: `messages` is a forest. A message's hash includes its parent's, so a request
that resends a history adds only what is new, and an inference points at one leaf. Bodies above
`packing.LARGE_BYTES` lie in `blobs`, each content once, whoever repeats it (system texts, tool lists, images).
Token ids form the same kind of forest in blocks (`token_blocks`).
"""

from __future__ import annotations

from collections.abc import Callable

from sqlite_utils import Database

from daemon.experience.sessions.tallies import RECOUNT

_TABLES = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE scenarios (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, created_at REAL NOT NULL, archived_at REAL, settings TEXT NOT NULL DEFAULT '{}');
CREATE TABLE words (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
CREATE TABLE blobs (id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, data BLOB NOT NULL);
CREATE TABLE messages (
  id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, parent INTEGER REFERENCES messages(id), body BLOB, blob INTEGER REFERENCES blobs(id));
CREATE TABLE token_blocks (
  id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, parent INTEGER REFERENCES token_blocks(id), data BLOB NOT NULL);
CREATE TABLE sessions (
  id INTEGER PRIMARY KEY, scenario INTEGER NOT NULL REFERENCES scenarios(id), key TEXT NOT NULL,
  created_at REAL NOT NULL, updated_at REAL NOT NULL, last_sequence INTEGER NOT NULL,
  title TEXT NOT NULL, turns INTEGER NOT NULL, asides INTEGER NOT NULL, UNIQUE (scenario, key));
CREATE INDEX sessions_newest ON sessions (scenario, last_sequence);
CREATE TABLE records (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT, scenario INTEGER NOT NULL REFERENCES scenarios(id),
  id TEXT NOT NULL, kind TEXT NOT NULL CHECK (kind IN ('inference', 'report', 'import')), created_at REAL NOT NULL, UNIQUE (id, scenario));
CREATE INDEX records_stream ON records (scenario, kind, sequence);
CREATE TABLE inferences (
  sequence INTEGER PRIMARY KEY REFERENCES records(sequence), session INTEGER NOT NULL REFERENCES sessions(id),
  kind TEXT NOT NULL, status TEXT NOT NULL, finish_reason TEXT NOT NULL,
  release INTEGER NOT NULL REFERENCES words(id), lora INTEGER REFERENCES words(id),
  model INTEGER NOT NULL REFERENCES words(id), wire INTEGER NOT NULL REFERENCES words(id),
  prompt INTEGER REFERENCES messages(id), effective INTEGER REFERENCES messages(id), reply INTEGER NOT NULL REFERENCES messages(id),
  reply_key BLOB NOT NULL, detail BLOB NOT NULL, token_block INTEGER REFERENCES token_blocks(id), trace BLOB);
CREATE INDEX inferences_session ON inferences (session, sequence);
CREATE INDEX inferences_reply ON inferences (reply_key);
CREATE TABLE reports (
  sequence INTEGER PRIMARY KEY REFERENCES records(sequence), score REAL, feedback TEXT NOT NULL, metadata TEXT NOT NULL);
CREATE TABLE report_references (
  report INTEGER NOT NULL REFERENCES reports(sequence), position INTEGER NOT NULL,
  target INTEGER NOT NULL REFERENCES records(sequence), PRIMARY KEY (report, position)) WITHOUT ROWID;
CREATE INDEX report_targets ON report_references (target);
CREATE TABLE imports (sequence INTEGER PRIMARY KEY REFERENCES records(sequence), request_type TEXT NOT NULL, payload BLOB NOT NULL);
CREATE TABLE runs (
  id TEXT PRIMARY KEY, scenario TEXT NOT NULL, recipe TEXT NOT NULL, status TEXT NOT NULL, phase TEXT NOT NULL,
  started_at REAL NOT NULL, ended_at REAL, verdict TEXT NOT NULL, sentence TEXT NOT NULL, release_id TEXT,
  trigger TEXT NOT NULL, config TEXT NOT NULL, error TEXT NOT NULL);
CREATE INDEX runs_newest ON runs (scenario, started_at);
CREATE TABLE run_events (run TEXT NOT NULL REFERENCES runs(id), seq INTEGER NOT NULL, at REAL NOT NULL, event TEXT NOT NULL,
  PRIMARY KEY (run, seq)) WITHOUT ROWID;
CREATE TABLE run_records (run TEXT NOT NULL REFERENCES runs(id), record TEXT NOT NULL, PRIMARY KEY (run, record)) WITHOUT ROWID;
CREATE INDEX run_records_record ON run_records (record);
CREATE TABLE consumption (scenario TEXT NOT NULL, record TEXT NOT NULL, release_id TEXT NOT NULL, at REAL NOT NULL,
  PRIMARY KEY (scenario, record)) WITHOUT ROWID;
CREATE TABLE operations (
  id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, scenario TEXT NOT NULL, operation TEXT NOT NULL,
  before TEXT, after TEXT, who TEXT NOT NULL, detail TEXT NOT NULL);
CREATE INDEX operations_newest ON operations (scenario, id);
CREATE TABLE lora_history (
  id INTEGER PRIMARY KEY AUTOINCREMENT, scenario TEXT NOT NULL, lora_id TEXT, release_id TEXT NOT NULL, at REAL NOT NULL,
  UNIQUE (scenario, release_id));
"""


def _first(database: Database) -> None:
    for statement in _TABLES.split(";\n"):
        if statement.strip():
            database.execute(statement)


def _tallies(database: Database) -> None:
    database.execute("ALTER TABLE sessions ADD COLUMN reports INTEGER NOT NULL DEFAULT 0")
    database.execute("ALTER TABLE sessions ADD COLUMN releases TEXT NOT NULL DEFAULT '[]'")
    database.execute(RECOUNT)


def _lineage(database: Database) -> None:
    """How a request follows from its session, NULL where that is not known; and what a turn's next one said of it."""
    database.execute("ALTER TABLE inferences ADD COLUMN parent INTEGER REFERENCES records(sequence)")
    database.execute("ALTER TABLE inferences ADD COLUMN step INTEGER")
    database.execute("CREATE TABLE signals (sequence INTEGER PRIMARY KEY REFERENCES records(sequence), names TEXT NOT NULL)")


MIGRATIONS: tuple[Callable[[Database], None], ...] = (_first, _tallies, _lineage)
