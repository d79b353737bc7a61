/** Style sheet of the report: system fonts, light and dark by preference, prints well. */
export const style = `
:root{color-scheme:light dark;--page:#f6f7f9;--card:#fff;--text:#1b2330;--soft:#5d6878;--rule:#e1e5ea;
--one:#2563c9;--two:#c2680a;--three:#8a94a3;--bad:#c0322b;--good:#1f7a43;--disk:#6b4fb3}
@media (prefers-color-scheme:dark){:root{--page:#12161c;--card:#1a2029;--text:#e6eaf0;--soft:#98a3b3;--rule:#2c3540;
--one:#6ea8ff;--two:#f0a04b;--three:#7c8797;--bad:#ff7b72;--good:#5cc98a;--disk:#b49cf5}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--text);font:15px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
header,main{max-width:900px;margin:0 auto;padding:0 20px}
header{padding-top:32px}
h1{font-size:24px;margin:0;letter-spacing:-.01em}
h2{font-size:15px;margin:0}
p{margin:2px 0 0;color:var(--soft)}
section,figure{margin:16px 0;padding:16px 18px;background:var(--card);border:1px solid var(--rule);border-radius:10px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(112px,1fr));gap:14px 16px}
.tiles strong{display:block;font-size:22px;letter-spacing:-.02em;font-variant-numeric:tabular-nums;white-space:nowrap}
.tiles span{color:var(--soft);font-size:13px}
.tiles .bad strong{color:var(--bad)}
figcaption{margin-bottom:6px}
figcaption p{font-size:13px}
figcaption b{font-weight:500;margin-right:14px}
figcaption b::before{content:"";display:inline-block;width:14px;height:3px;border-radius:2px;margin-right:6px;vertical-align:middle;background:currentColor}
b.one{color:var(--one)}b.two{color:var(--two)}b.three{color:var(--three)}b.disk{color:var(--disk)}b.bad{color:var(--bad)}
svg{display:block;width:100%;height:auto}
svg text{fill:var(--soft);font-size:12px;font-variant-numeric:tabular-nums}
.grid{stroke:var(--rule)}.axis{stroke:var(--soft)}
polyline.line{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}
polyline.one{stroke:var(--one)}polyline.two{stroke:var(--two)}polyline.three{stroke:var(--three);stroke-width:1.25}polyline.bad{stroke:var(--bad)}
polyline.disk{stroke:var(--disk);stroke-dasharray:6 5;stroke-width:1.5}
polyline.mark{stroke:var(--text);stroke-width:1;stroke-dasharray:2 3}
polyline.area{fill:var(--one);fill-opacity:.12;stroke:none}
circle.one{fill:var(--one)}circle.two{fill:var(--two)}circle.three{fill:var(--three)}circle.bad{fill:var(--bad)}
.bar{fill:var(--one);fill-opacity:.75}
.hover{fill:var(--text);fill-opacity:0}.hover:hover{fill-opacity:.07}
.columns{display:grid;grid-template-columns:repeat(auto-fit,minmax(330px,1fr));gap:22px 34px}
table{width:100%;border-collapse:collapse;margin-top:6px;font-size:14px;font-variant-numeric:tabular-nums}
th,td{padding:4px 12px 4px 0;text-align:left;vertical-align:top;border-top:1px solid var(--rule);overflow-wrap:anywhere}
th{font-weight:400;color:var(--soft);white-space:nowrap}
tr:first-child>*{border-top:0}
td.wide{width:60%}
td.good{color:var(--good)}td.bad{color:var(--bad)}
.errors i{display:block;height:10px;margin-top:5px;background:var(--bad);border-radius:3px;min-width:2px}
.empty{padding:24px 0}
@media print{body{background:none}section,figure{break-inside:avoid}}
`
