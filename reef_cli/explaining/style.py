"""How the page looks: light and dark as the reader's system is, and on paper."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --ink: #1c2024; --soft: #60646c; --line: #d9dce1; --paper: #fcfcfd; --panel: #f3f4f6;
  --good: #18794e; --bad: #b42318; --goodback: #d7f2e3; --badback: #fbdcd9; --accent: #0b68cb; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --soft: #9ba1a6; --line: #3a3f42; --paper: #151718; --panel: #1f2224;
  --good: #4cc38a; --bad: #ff9592; --goodback: #113b29; --badback: #4b1c1a; --accent: #70b8ff; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.25; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.5rem 0 .75rem; padding-top: .75rem; border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.5rem 0 .5rem; overflow-wrap: anywhere; }
p { margin: .5rem 0; max-width: 46rem; overflow-wrap: anywhere; }
.lead { font-size: 1.1rem; font-weight: 600; max-width: none; } h1 .badge { font-weight: 400; vertical-align: middle; }
.soft, figcaption { color: var(--soft); }
.badge { border: 1px solid currentColor; border-radius: 1rem; padding: .05rem .6rem; font-size: .85rem; white-space: nowrap; }
.win-text { color: var(--good); } .loss-text { color: var(--bad); }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem .35rem 0; border-bottom: 1px solid var(--line);
  overflow-wrap: anywhere; }
th { font-weight: 600; } td.number, th.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
pre, code { font: .82rem/1.5 ui-monospace, monospace; }
pre { margin: 0; padding: .6rem .8rem; background: var(--panel); border-radius: .4rem; white-space: pre-wrap; overflow-wrap: anywhere; }
.line { display: block; } .added { color: var(--good); } .removed { color: var(--bad); }
ins, del { text-decoration: none; border-radius: .2rem; font-weight: 600; }
ins { background: var(--goodback); border-bottom: 2px solid; } del { background: var(--badback); text-decoration: line-through; }
details { border-bottom: 1px solid var(--line); } summary { cursor: pointer; padding: .35rem 0; overflow-wrap: anywhere; }
details > div { padding: 0 0 .8rem; }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: .8rem; }
@media (max-width: 40rem) { .pair { grid-template-columns: 1fr; } }
.bar { display: block; width: 100%; height: .6rem; margin: .15rem 0; }
.rail { fill: var(--line); } .before { fill: var(--soft); } .after { fill: var(--accent); }
.win { fill: var(--good); } .loss { fill: var(--bad); } .tie { fill: var(--line); }
figure { margin: 1rem 0; } .curve { display: block; width: 100%; height: auto; }
.curve polyline { fill: none; stroke: var(--accent); stroke-width: 2; stroke-linejoin: round; }
.curve .grid { stroke: var(--line); } .curve text { fill: var(--soft); font-size: 12px; }
tr.own { font-weight: 600; }
@media print { :root { --paper: #fff; --ink: #000; --soft: #444; } main { max-width: none; padding: 0; }
  h2, h3, summary { break-after: avoid; } tr, figure { break-inside: avoid; } * { print-color-adjust: exact; } }
"""
