"""What records often hold, as the dictionary that zstd begins with: short bodies take half of the space.

Never change it: stored bytes need it to be read again. Another text gets another codec byte in `packing`. What is most frequent
stands last.
"""

_PROSE = """\
I'll start by looking at the code. Let me check the file. Now I understand the problem: the test fails because this function returns None
when the value is empty. Let me fix it and run the tests again. All tests pass now. The changes look good; here is a summary of what I did.
I need to update the configuration, then add a test for it. Should I continue? Please make sure that there are no other places which use the
old name. You are a helpful coding assistant. You can read files, edit them, and run commands in the user's working directory. Thank you!
could would should because through between without however therefore following example information function method variable argument
"""
_CODE = """\
#!/usr/bin/env bash
set -euo pipefail
const express = require('express'); export default function App() { const [state, setState] = useState(null); useEffect(() => { }, []);
import React from 'react'; export interface Options { readonly name: string; value?: number | undefined; } async function main():
Promise<void> {
  try { await fetch(url); } catch (error) { console.error(error.message); throw new Error(`failed: ${error}`); } finally { } }
package main; import ("fmt"; "os"; "errors"); func (s *Server) Handle(w http.ResponseWriter, r *http.Request) error { if err !=
nil { return err } }
use std::collections::HashMap; pub fn new(value: &str) -> Result<Self, Error> { let mut map = HashMap::new(); match value {
Some(x) => Ok(x), None => Err(e), } }
#include <stdio.h> #include <stdlib.h> static int init(struct node *next, const char *name, size_t len) { if (!next) return -1;
for (int i = 0; i < len; i++) }
public static void main(String[] args) { private final List<String> items = new ArrayList<>(); @Override public String toString()
{ return this.name; } }
SELECT id, name, created_at FROM users WHERE id = ? ORDER BY created_at DESC LIMIT 10; INSERT INTO VALUES CREATE TABLE IF NOT
EXISTS PRIMARY KEY NOT NULL
diff --git a/src/main.py b/src/main.py
index 0000000..1111111 100644
--- a/src/main.py
+++ b/src/main.py
@@ -1,7 +1,9 @@
error: warning: note: expected found undefined reference to cannot find module
drwxr-xr-x  2 root root  4096 Jan  1 00:00 node_modules package.json README.md pyproject.toml src tests
============================= test session starts ==============================
collected 12 items FAILED tests/test_main.py::test_main - AssertionError: assert 1 == 2
1 failed, 11 passed in 0.42s
Traceback (most recent call last):
  File "/usr/lib/python3/site-packages/main.py", line 10, in <module>
    raise ValueError(f"unexpected {value!r}")
ValueError: invalid literal for int() with base 10
from __future__ import annotations
import os, sys, json, re, logging, argparse, subprocess, asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional, Union
@dataclass(frozen=True)
class Config(BaseModel):
    def __init__(self, name: str, value: int = 0, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self._name = name
    @property
    def name(self) -> str:
        \"\"\"Return the name. Raises ValueError if it is not set.\"\"\"
        if self._name is None:
            raise TypeError("expected str, got %s" % type(self).__name__)
        return self._name
    with open(path, "r", encoding="utf-8") as file:
        for line in file:
            if not line.strip() or line.startswith("#"):
                continue
            else:
                result.append(line.rstrip("\\n").split())
    try:
        return isinstance(value, (list, tuple, dict)) and len(value) > 0
    except (KeyError, AttributeError, ImportError):
        pass
    while True:
        yield False
if __name__ == "__main__":
    main()
"""
_FORM = (
    '{"type":"function","function":{"name":"","description":"The absolute path to the file","parameters":{"type":"object","properties":{'
    '"command":{"type":"string","description":"The command to run"},"path":{"type":"string"},"limit":{"type":"integer","minimum":0},'
    '"items":{"type":"array","items":{"type":"string","enum":[]}}},"required":["path"],"additionalProperties":false},"strict":true}}'
    '{"role":"user","content":[{"type":"text","text":""},{"type":"image_url","image_url":{"url":"data:image/png;base64,"}}]}'
    '{"role":"assistant","content":"","reasoning_content":"The user wants me to '
    '{"usage":[1024,128,896],"ms":[120.5,2400.25],"sampling":{"temperature":0.2,"top_p":0.95,"top_k":40,"seed":null,"stop":[]},'
    '"request":{"model":"","stream":true,"stream_options":{"include_usage":true},"tool_choice":"auto","parallel_tool_calls":true,'
    '"max_tokens":4096,"max_completion_tokens":32000,"temperature":0.0,"reasoning_effort":"medium","store":false,"n":1,'
    '"metadata":{"user_id":""},"prompt_cache_key":"","response_format":{"type":"json_object"}},"large":{"tools":1},'
    '"tags":{"client":"pi"},"error":"","note":"","cache_miss":"","redactions":1}'
    '{"role":"tool","tool_call_id":"toolu_01","content":"{\\"output\\":\\"","name":"read_file"}'
    '{"role":"user","content":"'
    '{"role":"tool","tool_call_id":"call_","content":"'
    '{"role":"assistant","content":null,"tool_calls":[{"id":"call_","type":"function","function":{"name":"bash",'
    '"arguments":"{\\"command\\":\\"cd '
    '{"role":"assistant","content":"","tool_calls":[{"id":"call_","type":"function","function":{"name":"read_file",'
    '"arguments":"{\\"path\\": \\"src/\\", \\"offset\\": 1, \\"limit\\": 200}"}}]}'
)
PHRASES = (_PROSE + _CODE + _FORM).encode()
