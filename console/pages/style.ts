/**
 * The console's style sheet: one type scale (five sizes), one grid of 8 px, colours as variables for light and dark.
 * State is never colour alone: each state has its sign.
 */
export const CONSOLE_STYLE = `
:root{color-scheme:light dark;--bg:#f6f5f1;--side:#efede6;--card:#fffefb;--ink:#1d1c19;--soft:#5d5a52;--line:#dedbd1;
--accent:#3346bd;--on-accent:#fff;--tint:#e8eafb;--code:#f3f1ea;--ill:#a8201a;--ill-tint:#fbe6e3;--look:#7a5200;
--look-tint:#fbeecb;--well:#1d6b3a;--well-tint:#dff1e3;--quiet:#55524b;--quiet-tint:#e9e6dd;
--s1:.8125rem;--s2:.9375rem;--s3:1.125rem;--s4:1.5rem;--s5:2.25rem;
--mono:ui-monospace,SFMono-Regular,Menlo,"DejaVu Sans Mono",monospace}
@media(prefers-color-scheme:dark){:root{--bg:#141412;--side:#1a1a17;--card:#1f1e1b;--ink:#efede6;--soft:#b0aca1;
--line:#3a382f;--accent:#aab5ff;--on-accent:#12153a;--tint:#272b4d;--code:#191916;--ill:#ff9d92;--ill-tint:#45201c;
--look:#f0c96b;--look-tint:#3d3013;--well:#83d39b;--well-tint:#1a3a25;--quiet:#bdb9ae;--quiet-tint:#2f2d27}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--bg);color:var(--ink);font:var(--s2)/1.55 system-ui,-apple-system,"Segoe UI",Roboto,
"Noto Sans","DejaVu Sans",sans-serif;overflow-wrap:anywhere;display:grid;min-height:100vh;
grid-template:auto auto 1fr auto/minmax(0,1fr)}
a{color:var(--accent);text-decoration:underline;text-decoration-thickness:1px;text-underline-offset:.18em}
a:hover{text-decoration-thickness:2px}
:focus-visible{outline:3px solid var(--accent);outline-offset:2px;border-radius:4px}
main:focus{outline:none}
.skip{position:absolute;left:-999rem;top:.5rem;background:var(--accent);color:var(--on-accent);padding:.5rem 1rem;z-index:9}
.skip:focus{left:.5rem}
.brand{display:flex;align-items:center;gap:.5rem;padding:1rem 1.25rem .5rem;font-size:var(--s3);font-weight:650;
letter-spacing:-.01em}
.brand a{color:var(--ink);text-decoration:none}
.mark{width:1.75rem;height:1.75rem;flex:none;color:var(--accent)}
.where{padding:0 1.25rem .5rem;color:var(--soft);font-size:var(--s1)}
.where b{color:var(--ink);font-weight:600}
nav.main{padding:.25rem .75rem .75rem}
nav.main ul{display:flex;flex-wrap:wrap;gap:.25rem;list-style:none;margin:0;padding:0}
nav.main a{display:block;padding:.375rem .75rem;border-radius:.5rem;color:var(--soft);text-decoration:none;font-weight:550}
nav.main a:hover{background:var(--quiet-tint);color:var(--ink)}
nav.main a[aria-current]{background:var(--card);color:var(--ink);box-shadow:inset 0 0 0 1px var(--line)}
.find{padding:0 1.25rem .75rem}
.find input{width:100%}
main{padding:1.5rem 1.25rem 2rem;min-width:0;background:var(--bg)}
footer{padding:1rem 1.25rem;color:var(--soft);font-size:var(--s1);border-top:1px solid var(--line);display:flex;
flex-wrap:wrap;gap:.5rem 1.5rem}
header.rail{background:var(--side);border-bottom:1px solid var(--line)}
@media(min-width:60rem){
body{grid-template:1fr auto/15rem minmax(0,1fr)}
header.rail{grid-row:1/3;border:0;border-right:1px solid var(--line)}
.stay{position:sticky;top:0;max-height:100vh;overflow:auto}
nav.main ul{flex-direction:column}
main{padding:2rem 2.5rem 3rem;max-width:82rem}
footer{grid-column:2;padding:1rem 2.5rem}
.brand{padding-top:1.5rem}}
h1{font-size:var(--s4);line-height:1.2;letter-spacing:-.02em;margin:0 0 .5rem;font-weight:680}
h2{font-size:var(--s3);letter-spacing:-.01em;margin:2.5rem 0 .75rem;line-height:1.3}
h3{font-size:var(--s2);margin:1.5rem 0 .5rem}
p{margin:.25rem 0 .75rem;max-width:46rem}
.soft{color:var(--soft)}.small{font-size:var(--s1)}.num{font-variant-numeric:tabular-nums;text-align:right}
.lead{color:var(--soft);max-width:46rem;margin-bottom:1.5rem}
.crumbs{font-size:var(--s1);margin:0 0 .5rem;color:var(--soft)}
.top{display:flex;flex-wrap:wrap;align-items:center;gap:.5rem .75rem}
.top h1{margin:0}
.tabs{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;list-style:none;margin:1rem 0 1.5rem;padding:0;
border-bottom:1px solid var(--line)}
.tabs a{display:block;padding:.5rem 0;color:var(--soft);text-decoration:none;border-bottom:3px solid transparent;
margin-bottom:-1px;font-weight:550}
.tabs a:hover{color:var(--ink)}
.tabs a[aria-current]{color:var(--ink);border-color:var(--accent)}
.state{display:inline-flex;align-items:center;gap:.375rem;white-space:nowrap;font-size:var(--s1);font-weight:600;
line-height:1.5;padding:.0625rem .625rem .0625rem .4375rem;border-radius:2rem;background:var(--quiet-tint);color:var(--quiet)}
.state.ill{background:var(--ill-tint);color:var(--ill)}
.state.attention{background:var(--look-tint);color:var(--look)}
.state.well{background:var(--well-tint);color:var(--well)}
.tag{display:inline-block;font-size:var(--s1);line-height:1.5;padding:0 .5rem;border-radius:.375rem;background:var(--quiet-tint);
color:var(--quiet);white-space:nowrap}
.tag.accent{background:var(--tint);color:var(--accent)}
.tally{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,9rem),1fr));gap:1rem;margin:1.5rem 0;padding:0;list-style:none}
.tally a{display:block;background:var(--card);border:1px solid var(--line);border-radius:.75rem;padding:1rem 1.25rem;
color:inherit;text-decoration:none}
.tally a:hover{border-color:var(--accent)}
.tally b{display:block;font-size:var(--s5);line-height:1.1;letter-spacing:-.03em;font-weight:650;font-variant-numeric:tabular-nums}
.tally .ill b{color:var(--ill)}.tally .attention b{color:var(--look)}.tally .well b{color:var(--well)}
.tally .none b{color:var(--soft)}
.incidents{list-style:none;margin:0;padding:0;display:grid;gap:.75rem}
.incident{background:var(--card);border:1px solid var(--line);border-left:.375rem solid var(--look);border-radius:.5rem;
padding:1rem 1.25rem}
.incident.ill{border-left-color:var(--ill)}
.incident h3{margin:0 0 .25rem;display:flex;flex-wrap:wrap;gap:.25rem .75rem;align-items:center;font-size:var(--s2)}
.incident p{margin:.25rem 0}
.incident .says{font-family:var(--mono);font-size:var(--s1);background:var(--code);border-radius:.375rem;padding:.375rem .625rem;
max-width:none;max-height:12rem;overflow:auto}
.acts{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;margin-top:.5rem;font-size:var(--s1);font-weight:600}
.calm{background:var(--well-tint);color:var(--well);border-radius:.75rem;padding:1rem 1.25rem;font-weight:600;max-width:none}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,19rem),1fr));gap:1rem;list-style:none;margin:0;padding:0}
.card{background:var(--card);border:1px solid var(--line);border-radius:.75rem;padding:1rem 1.25rem;display:flex;
flex-direction:column;gap:.375rem;min-width:0}
.card h3{margin:0;font-size:var(--s2)}
.card p{margin:0;color:var(--soft);font-size:var(--s1)}
.about{display:-webkit-box;-webkit-line-clamp:3;-webkit-box-orient:vertical;overflow:hidden;max-height:4.75em}
.address{display:flex;gap:.5rem;align-items:center;font-family:var(--mono);font-size:var(--s1);background:var(--code);
border-radius:.375rem;padding:.25rem .25rem .25rem .625rem}
.address code{flex:1;min-width:0}
.table{overflow:hidden;border:1px solid var(--line);border-radius:.75rem;background:var(--card)}
table{width:100%;border-collapse:collapse;font-size:var(--s2)}
caption{text-align:left;padding:.75rem 1rem;color:var(--soft);font-size:var(--s1)}
th,td{text-align:left;padding:.5625rem 1rem;border-top:1px solid var(--line);vertical-align:top}
thead th{border-top:0;color:var(--soft);font-weight:600;font-size:var(--s1);white-space:nowrap}
caption+thead th{border-top:1px solid var(--line)}
tbody:first-child tr:first-child>*{border-top:0}
tbody th{font-weight:600}
td.num,th.num{text-align:right}
tbody tr:hover{background:var(--code)}
tr:focus-within{background:var(--code)}
@media(max-width:44rem){
.table thead{position:absolute;left:-999rem}
.table,.table table,.table tbody,.table caption{display:block}
.table tr{display:grid;grid-template-columns:minmax(0,1fr);gap:.25rem;padding:.75rem 1rem;border-top:1px solid var(--line)}
.table tr:first-child{border-top:0}
.table th,.table td{border:0;padding:0;text-align:left;display:flex;gap:.75rem}
.table td[data-label]::before{content:attr(data-label);color:var(--soft);font-size:var(--s1);flex:0 0 6rem}}
form.filter{display:flex;flex-wrap:wrap;gap:.75rem;align-items:end;margin:1rem 0}
label{display:block;font-size:var(--s1);font-weight:600;color:var(--soft)}
label>span{display:block;margin-bottom:.25rem}
input,select,textarea,button,.button{font:inherit;color:var(--ink);background:var(--card);border:1px solid #8b877b;border-radius:.5rem;
padding:.4375rem .75rem;min-width:0;max-width:100%}
input,select,textarea{font-size:var(--s2);font-weight:400}
.filter input:not([type=checkbox]),.filter select,.filter button{height:2.5rem}
textarea{width:100%;min-height:7rem;font-family:var(--mono);font-size:var(--s1)}
input[type=checkbox]{width:1.125rem;height:1.125rem;vertical-align:middle}
button,.button{display:inline-block;background:var(--accent);border-color:var(--accent);color:var(--on-accent);font-weight:600;
cursor:pointer;text-decoration:none;font-size:var(--s2)}
button.quiet,.button.quiet{background:var(--card);color:var(--ink);border-color:#8b877b}
button.mini{padding:.125rem .625rem;font-size:var(--s1)}
.pages{display:flex;flex-wrap:wrap;gap:.75rem;align-items:center;margin:1rem 0}
.note{border-left:.25rem solid var(--line);background:var(--card);padding:.75rem 1rem;margin:1rem 0;border-radius:0 .5rem .5rem 0;
max-width:60rem}
.note.warn{border-color:var(--look);background:var(--look-tint);color:var(--ink)}
.note.bad{border-color:var(--ill);background:var(--ill-tint)}
.note p:last-child{margin-bottom:0}
.empty{background:var(--card);border:1px dashed #8b877b;border-radius:.75rem;padding:2rem 1.25rem;color:var(--soft)}
.empty p{margin-left:auto;margin-right:auto;text-align:center}
pre{background:var(--code);border:1px solid var(--line);border-radius:.5rem;padding:.75rem 1rem;margin:.5rem 0;
font:var(--s1)/1.55 var(--mono);white-space:pre-wrap;overflow:auto;max-height:60vh}
code{font-family:var(--mono);font-size:.9em}
dl.facts{display:grid;grid-template-columns:minmax(7rem,12rem) minmax(0,1fr);gap:.375rem 1rem;margin:1rem 0;max-width:60rem}
dl.facts dt{color:var(--soft);font-size:var(--s1);padding-top:.125rem}
dl.facts dd{margin:0}
@media(max-width:30rem){dl.facts{grid-template-columns:minmax(0,1fr)}dl.facts dd{margin-bottom:.5rem}}
ul.tree{list-style:none;margin:.25rem 0;padding-left:1.25rem;border-left:1px solid var(--line)}
ul.tree.root{padding-left:0;border:0}
ul.tree li{margin:.25rem 0}
ol.steps{display:flex;flex-wrap:wrap;gap:.5rem;list-style:none;margin:1rem 0;padding:0}
details{background:var(--card);border:1px solid var(--line);border-radius:.5rem;margin:.75rem 0}
summary{cursor:pointer;padding:.625rem 1rem;font-weight:600}
details>*:not(summary){margin-left:1rem;margin-right:1rem}
details>*:last-child:not(summary){margin-bottom:1rem}
fieldset{border:1px solid var(--line);border-radius:.5rem;margin:1rem 0;padding:.75rem 1rem 1rem;min-width:0}
legend{font-weight:600;padding:0 .375rem}
.fields{display:grid;gap:1rem;max-width:44rem}
.fields .hint{font-weight:400}
.fields input:not([type=checkbox]),.fields select{width:100%}
.map{border:1px solid var(--line);border-radius:.75rem;background:var(--card);overflow:auto;margin:1rem 0}
.map svg{display:block;max-width:none;height:auto}
@media(max-width:44rem){.map{display:none}}
.map .edge{fill:none;stroke:var(--soft);stroke-width:1.5;opacity:.55}
.map .box rect{fill:var(--bg);stroke:var(--soft);stroke-width:1}
.map .box.ill rect{fill:var(--ill-tint);stroke:var(--ill)}
.map .box.attention rect{fill:var(--look-tint);stroke:var(--look)}
.map .box.well rect{stroke:var(--well)}
.map .box.missing rect{stroke-dasharray:5 4;stroke:var(--ill)}
.map text{fill:var(--ink);font-size:13px}
.map .kind{fill:var(--soft);font-size:11px}
.map a:hover rect{stroke-width:2.5}
.chart{display:block;width:100%;height:auto;color:var(--accent)}
.bar{fill:var(--accent)}
.gone{background:var(--ill-tint);text-decoration:none}.come{background:var(--well-tint);text-decoration:none}
.live{position:sticky;top:.5rem;z-index:3}
.hidden{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
dialog{border:1px solid var(--line);border-radius:.75rem;background:var(--card);color:var(--ink);padding:1.5rem;max-width:min(34rem,92vw)}
kbd{font-family:var(--mono);font-size:var(--s1);border:1px solid var(--line);border-bottom-width:2px;border-radius:.25rem;
padding:0 .375rem;background:var(--code)}
@media(prefers-reduced-motion:no-preference){.tally a,.card,nav.main a{transition:border-color .15s,background-color .15s}}
@media(forced-colors:active){.state,.tag,.tally a,.incident,.card{border:1px solid CanvasText}.map .edge{stroke:CanvasText}
.map text,.map .kind{fill:CanvasText}.map .box rect{fill:Canvas;stroke:LinkText}nav.main a[aria-current]{border:2px solid Highlight}
.tabs a[aria-current]{border-bottom-color:Highlight}}
`
