"""The report's style sheet: readable on wide and narrow windows, light and dark, and on paper."""

STYLE = """:root {
  color-scheme: light dark;
  --paper: #fbfbfa; --card: #ffffff; --ink: #1a1d21; --soft: #5b626b; --line: #e2e4e7;
  --holds: #0b6e4f; --fails: #b3261e; --accent: #0072b2;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #101216; --card: #16181d; --ink: #e8eaed; --soft: #9aa2ad; --line: #2a2e35;
    --holds: #58c99a; --fails: #ff8a80; --accent: #6cb8e8;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; padding: 0 clamp(1rem, 4vw, 3rem) 4rem; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
}
header, main { max-width: 62rem; margin: 0 auto; }
header { padding: 3rem 0 1rem; }
.eyebrow { margin: 0; color: var(--soft); font-size: .85rem; letter-spacing: .04em; }
h1 { margin: .2rem 0 .4rem; font-size: clamp(1.7rem, 4vw, 2.5rem); line-height: 1.15; letter-spacing: -.02em; }
h1.fails { color: var(--fails); }
h2 { margin: 2.5rem 0 .5rem; font-size: 1.25rem; }
.lead { margin: 0; max-width: 46rem; color: var(--soft); font-size: 1.05rem; }
.partial { color: var(--fails); font-weight: 600; }
.note { max-width: 46rem; color: var(--soft); font-size: .92rem; }
figure { margin: 1.5rem 0 0; padding: clamp(.6rem, 2vw, 1.4rem); background: var(--card); border: 1px solid var(--line);
  border-radius: 12px; }
figure img { display: block; width: 100%; height: auto; }
figcaption { margin-top: .8rem; color: var(--soft); font-size: .85rem; }
.rows { background: var(--card); border: 1px solid var(--line); border-radius: 12px; overflow: hidden; }
.row { display: grid; grid-template-columns: 5.5rem minmax(0, 1fr) 6rem 7rem 6rem; gap: .75rem; align-items: baseline;
  padding: .6rem 1rem; }
.row.head { color: var(--soft); font-size: .8rem; letter-spacing: .03em; }
.entry { border-top: 1px solid var(--line); }
summary { cursor: pointer; list-style: none; }
summary::-webkit-details-marker { display: none; }
summary:hover { background: color-mix(in srgb, var(--accent) 7%, transparent); }
summary:focus-visible { outline: 2px solid var(--accent); outline-offset: -2px; }
.number { font-variant-numeric: tabular-nums; font-weight: 600; overflow-wrap: anywhere; }
.number::before { content: "▸"; display: inline-block; width: 1.1em; color: var(--soft); font-weight: 400; }
[open] > summary .number::before { content: "▾"; }
.title { overflow-wrap: anywhere; }
.cell { font-size: .9rem; white-space: nowrap; }
.cell.holds { color: var(--holds); }
.cell.fails { color: var(--fails); font-weight: 600; }
.cell.none { color: var(--soft); }
.body { padding: .2rem 1rem 1.2rem 6.6rem; }
.formula { margin: .6rem 0; overflow-x: auto; overflow-y: hidden; font-size: 1.08rem; }
.formula math { text-align: left; margin: 0; }
math[display="block"] { display: block math; width: max-content; }
math .b { font-weight: 700; }
math .s { font-family: ui-sans-serif, system-ui, sans-serif; }
pre.formula { padding: .6rem .8rem; border: 1px solid var(--line); border-radius: 8px; font-size: .85rem; white-space: pre-wrap; }
.where, .erratum { margin: .3rem 0; color: var(--soft); font-size: .88rem; }
.erratum strong { color: var(--ink); }
.error { margin: .2rem 0; color: var(--fails); font-family: ui-monospace, monospace; font-size: .85rem; overflow-wrap: anywhere; }
.claim { margin: .8rem 0 0; padding-left: .9rem; border-left: 3px solid var(--holds); }
.claim.fails { border-color: var(--fails); }
.claim h3 { margin: 0; font-size: .95rem; font-weight: 600; }
.numbers { display: flex; flex-wrap: wrap; gap: .1rem 1.2rem; margin: .1rem 0; font-size: .88rem; font-variant-numeric: tabular-nums; }
.method { color: var(--accent); }
.reason { margin: 0; color: var(--soft); font-size: .85rem; }
.environment { display: grid; grid-template-columns: repeat(auto-fill, minmax(13rem, 1fr)); gap: .4rem 1.5rem; margin: 0; }
.environment div { display: flex; gap: .6rem; justify-content: space-between; border-bottom: 1px solid var(--line); padding: .2rem 0; }
dt { color: var(--soft); }
dd { margin: 0; text-align: right; font-variant-numeric: tabular-nums; }
@media (max-width: 44rem) {
  .row { grid-template-columns: 4.6rem repeat(3, minmax(0, 1fr)); gap: .15rem .6rem; }
  .row.head { display: none; }
  .title { grid-column: 2 / -1; }
  .row .cell { grid-row: 2; font-size: .82rem; white-space: normal; }
  .row .cell[data-column="proof"] { grid-column: 2; }
  .row .cell[data-column="numbers"] { grid-column: 3; }
  .row .cell[data-column="training"] { grid-column: 4; }
  .cell::before { content: attr(data-column) " "; color: var(--soft); }
  .body { padding-left: 1rem; }
}
@media print { .entry .body { display: block; } }
"""
