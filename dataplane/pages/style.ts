/**
 * The tokens that the console, the data plane's pages and the documentation share: five type sizes, a grid of 4 px, two
 * corners, colours for light and dark. A state is never colour alone.
 */
export const BASE_STYLE = `
:root{color-scheme:light dark;--bg:#f6f5f1;--side:#efede6;--card:#fffefb;--ink:#1d1c19;--soft:#5d5a52;--line:#dedbd1;
--edge:#8b877b;--accent:#3346bd;--on-accent:#fff;--tint:#e8eafb;--code:#f3f1ea;--ill:#a8201a;--ill-tint:#fbe6e3;
--look:#7a5200;--look-tint:#fbeecb;--well:#1d6b3a;--well-tint:#dff1e3;--quiet:#55524b;--quiet-tint:#e9e6dd;
--s1:.8125rem;--s2:.9375rem;--s3:1.125rem;--s4:1.5rem;--s5:2.25rem;
--p1:.25rem;--p2:.5rem;--p3:.75rem;--p4:1rem;--p5:1.5rem;--p6:2.5rem;--r1:.375rem;--r2:.625rem;
--sans:system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","DejaVu Sans",sans-serif;
--mono:ui-monospace,SFMono-Regular,Menlo,"DejaVu Sans Mono",monospace}
@media(prefers-color-scheme:dark){:root{--bg:#141412;--side:#1a1a17;--card:#1f1e1b;--ink:#efede6;--soft:#b0aca1;
--line:#3a382f;--accent:#aab5ff;--on-accent:#12153a;--tint:#272b4d;--code:#191916;--ill:#ff9d92;--ill-tint:#45201c;
--look:#f0c96b;--look-tint:#3d3013;--well:#83d39b;--well-tint:#1a3a25;--quiet:#bdb9ae;--quiet-tint:#2f2d27}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--bg);color:var(--ink);font:var(--s2)/1.55 var(--sans);overflow-wrap:anywhere}
a{color:var(--accent);text-decoration:underline;text-decoration-thickness:1px;text-underline-offset:.18em}
a:hover{text-decoration-thickness:2px}
:focus-visible{outline:3px solid var(--accent);outline-offset:2px;border-radius:var(--r1)}
.mark{width:1.75rem;height:1.75rem;flex:none;color:var(--accent)}
h1{font-size:var(--s4);line-height:1.2;letter-spacing:-.02em;margin:0 0 var(--p2);font-weight:680}
h2{font-size:var(--s3);letter-spacing:-.01em;margin:var(--p6) 0 var(--p3);line-height:1.3}
h3{font-size:var(--s2);margin:var(--p5) 0 var(--p2)}
p{margin:var(--p1) 0 var(--p3);max-width:46rem}
.soft{color:var(--soft)}.small{font-size:var(--s1)}
pre{background:var(--code);border:1px solid var(--line);border-radius:var(--r2);padding:var(--p3) var(--p4);margin:var(--p2) 0;
font:var(--s1)/1.55 var(--mono);white-space:pre-wrap;overflow:auto}
code{font-family:var(--mono);font-size:.9em}
pre code{font-size:1em}
table{width:100%;border-collapse:collapse;font-size:var(--s2)}
th,td{text-align:left;padding:var(--p2) var(--p4);border-top:1px solid var(--line);vertical-align:top}
thead th{border-top:0;color:var(--soft);font-weight:600;font-size:var(--s1);white-space:nowrap}
tbody:first-child tr:first-child>*{border-top:0}
tbody th{font-weight:600}
input,select,textarea,button,.button{font:inherit;color:var(--ink);background:var(--card);border:1px solid var(--edge);
border-radius:var(--r2);padding:.4375rem var(--p3);min-width:0;max-width:100%}
input,select,textarea{font-size:var(--s2);font-weight:400}
button,.button{display:inline-block;background:var(--accent);border-color:var(--accent);color:var(--on-accent);
font:600 var(--s2)/1.55 var(--sans);cursor:pointer;text-decoration:none}
button.quiet,.button.quiet{background:var(--card);color:var(--ink);border-color:var(--edge)}
button.quiet:hover,.button.quiet:hover{border-color:var(--accent)}
button.mini,.button.mini{padding:var(--p1) var(--p3);font-size:var(--s1);line-height:1.4;border-radius:var(--r1)}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,19rem),1fr));gap:var(--p4);list-style:none;margin:0;
padding:0}
.cards>*{min-width:0}
.card{background:var(--card);border:1px solid var(--line);border-radius:var(--r2);padding:var(--p4);display:flex;
flex-direction:column;gap:var(--p2);min-width:0}
.about{display:-webkit-box;-webkit-line-clamp:3;-webkit-box-orient:vertical;overflow:hidden;max-height:4.75em}
.tag{display:inline-block;font-size:var(--s1);line-height:1.5;padding:0 var(--p2);border-radius:var(--r1);
background:var(--tint);color:var(--accent)}
.tag.quiet{background:var(--quiet-tint);color:var(--quiet)}
.tag.warn{background:var(--look-tint);color:var(--look)}
.note{border-left:.25rem solid var(--line);background:var(--card);padding:var(--p3) var(--p4);margin:var(--p4) 0;
border-radius:0 var(--r2) var(--r2) 0;max-width:60rem}
.note.warn{border-color:var(--look);background:var(--look-tint)}
.note.bad{border-color:var(--ill);background:var(--ill-tint)}
.note p:last-child{margin-bottom:0}
.empty{background:var(--card);border:1px dashed var(--edge);border-radius:var(--r2);padding:var(--p6) var(--p4);
color:var(--soft);text-align:center}
.empty p{margin-left:auto;margin-right:auto}
.empty p:last-child{margin-bottom:0}
.pages{display:flex;flex-wrap:wrap;gap:var(--p3);align-items:center;margin:var(--p4) 0}
details{background:var(--card);border:1px solid var(--line);border-radius:var(--r2);margin:var(--p3) 0}
summary{cursor:pointer;padding:var(--p2) var(--p4);font-weight:600}
details>*:not(summary){margin-left:var(--p4);margin-right:var(--p4)}
details>*:last-child:not(summary){margin-bottom:var(--p4)}
`

/** The style sheet of the data plane's pages. Each page contains it, so that nothing else is fetched. */
export const STYLE = `${BASE_STYLE}
header,main,footer{max-width:64rem;margin:0 auto;padding:0 var(--p5)}
header{display:flex;align-items:center;gap:var(--p2);padding-top:var(--p5);padding-bottom:var(--p5);font-size:var(--s3)}
header a{flex:none;color:var(--ink);font-weight:650;letter-spacing:-.01em;text-decoration:none}
header span{color:var(--soft);font-size:var(--s2)}
footer{color:var(--soft);font-size:var(--s1);padding-top:var(--p6);padding-bottom:var(--p6)}
form.search{display:flex;flex-wrap:wrap;gap:var(--p3);margin:var(--p4) 0 var(--p5)}
input[type=search]{flex:1 1 16rem}
input[type=password]{width:100%;max-width:32rem}
li .card{height:100%}
a.card{color:inherit;text-decoration:none}
a.card:hover{border-color:var(--accent)}
li.card{list-style:none}
.name{font:var(--s1)/1.4 var(--mono);color:var(--soft)}
b.name{color:inherit}
.card .about{color:var(--soft);font-size:var(--s1);flex:1 0 auto}
.tags{display:flex;flex-wrap:wrap;gap:var(--p1)}
table{background:var(--card);border:1px solid var(--line);border-radius:var(--r2);border-collapse:separate;border-spacing:0;
overflow:hidden}
td+td,th{white-space:nowrap}
td.wrap{white-space:normal}
table.facts{max-width:46rem;margin:var(--p4) 0}
table.facts th{white-space:normal;width:10rem;color:var(--soft);font-size:var(--s1)}
form.choices,form div.choices{display:flex;flex-wrap:wrap;gap:var(--p3);margin:var(--p5) 0}
form.choices button{flex:1 1 8rem;max-width:12rem}
button.small{padding:var(--p1) var(--p3);font-size:var(--s1)}
li.link{border:1px solid var(--line);border-radius:var(--r2);background:var(--card);padding:var(--p4);margin:var(--p4) 0;
max-width:48rem}
li.link h2{margin:0}
details.link{max-width:48rem}
ul.plain{list-style:none;margin:0;padding:0}
.note{max-width:46rem}
@media(max-width:30rem){header,main,footer{padding-left:var(--p4);padding-right:var(--p4)}
table.facts :is(th,td){display:block;width:auto}table.facts td{border:0;padding-top:0}}
@media(forced-colors:active){.tag,.card,.note,li.link{border:1px solid CanvasText}}
`
