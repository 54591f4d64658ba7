/** The one style sheet of the pages. Each page contains it, so that nothing else is fetched. */
export const STYLE = `
:root{color-scheme:light dark;--bg:#f7f7f5;--card:#fff;--ink:#1c1d21;--soft:#62656e;--line:#e3e3df;--accent:#3a4fd0;
--tint:#eef0fd;--code:#f2f2ee;--warn:#8a5a00;--warn-tint:#fff3d9;--shadow:0 1px 2px rgb(0 0 0/.05)}
@media(prefers-color-scheme:dark){:root{--bg:#131418;--card:#1b1d23;--ink:#ececf0;--soft:#9ea2ae;--line:#2d3039;
--accent:#a3b0ff;--tint:#242944;--code:#14161b;--warn:#f0c36a;--warn-tint:#3a2f17;--shadow:none}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",
"DejaVu Sans",sans-serif;-webkit-text-size-adjust:100%;overflow-wrap:anywhere}
a{color:var(--accent);text-decoration:none}
a:hover{text-decoration:underline}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px;border-radius:4px}
header,main,footer{max-width:64rem;margin:0 auto;padding:0 1.25rem}
header{display:flex;align-items:center;gap:.6rem;padding-top:1.5rem;padding-bottom:1.5rem}
header .mark{width:1.6rem;height:1.6rem;flex:none;color:var(--accent)}
header a{flex:none;color:var(--ink);font-weight:650;letter-spacing:-.01em}
header span{color:var(--soft)}
h1{font-size:1.75rem;line-height:1.2;letter-spacing:-.02em;margin:.25rem 0 .5rem}
h2{font-size:1.1rem;margin:2.25rem 0 .75rem;letter-spacing:-.01em}
p{margin:.25rem 0 .75rem;max-width:46rem}
.soft{color:var(--soft)}
.small{font-size:.875rem}
form.search{display:flex;flex-wrap:wrap;gap:.6rem;margin:1rem 0 1.5rem}
input,select,button{font:inherit;color:inherit;background:var(--card);border:1px solid var(--line);border-radius:.6rem;
padding:.6rem .85rem;min-width:0}
input[type=search]{flex:1 1 16rem}
input[type=password]{width:100%;max-width:32rem}
button{background:var(--accent);border-color:var(--accent);color:var(--bg);font-weight:600;cursor:pointer}
.grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,18rem),1fr));gap:.9rem;list-style:none;
padding:0;margin:0}
.card{background:var(--card);border:1px solid var(--line);border-radius:.9rem;box-shadow:var(--shadow);padding:1rem 1.1rem;
display:flex;flex-direction:column;gap:.3rem;height:100%;color:inherit;transition:border-color .15s}
a.card:hover{border-color:var(--accent);text-decoration:none}
.card b{font-size:1.05rem;letter-spacing:-.01em}
.card .name{font:.8rem/1.4 ui-monospace,SFMono-Regular,Menlo,"DejaVu Sans Mono",monospace;color:var(--soft)}
.card .about{color:var(--soft);font-size:.925rem;flex:1;display:-webkit-box;-webkit-line-clamp:3;-webkit-box-orient:vertical;
overflow:hidden}
.tags{display:flex;flex-wrap:wrap;gap:.35rem;margin-top:.35rem}
.tag{font-size:.75rem;line-height:1.5;padding:.05rem .5rem;border-radius:1rem;background:var(--tint);color:var(--accent)}
.tag.quiet{background:var(--code);color:var(--soft)}
.tag.warn{background:var(--warn-tint);color:var(--warn)}
.pages{display:flex;gap:.75rem;margin:1.5rem 0}
.empty{background:var(--card);border:1px dashed var(--line);border-radius:.9rem;padding:2.5rem 1.25rem;text-align:center;
color:var(--soft)}
pre{background:var(--code);border:1px solid var(--line);border-radius:.6rem;padding:.8rem 1rem;overflow:auto;margin:.5rem 0;
font:.85rem/1.55 ui-monospace,SFMono-Regular,Menlo,"DejaVu Sans Mono",monospace}
code{font-family:ui-monospace,SFMono-Regular,Menlo,"DejaVu Sans Mono",monospace;font-size:.9em}
details{background:var(--card);border:1px solid var(--line);border-radius:.75rem;padding:0 1rem;margin:.6rem 0}
details[open]{padding-bottom:.75rem}
summary{cursor:pointer;padding:.7rem 0;font-weight:600}
table{width:100%;border-collapse:collapse;background:var(--card);border:1px solid var(--line);border-radius:.75rem;
overflow:hidden;font-size:.925rem}
th,td{text-align:left;padding:.55rem .9rem;border-top:1px solid var(--line)}
td+td,th{white-space:nowrap}
td.wrap{white-space:normal}
th[scope=row]{border-top:1px solid var(--line)}
tr:first-child th[scope=row],tbody:first-child tr:first-child td{border-top:0}
li.card{list-style:none}
.card b.name{color:inherit;font-size:.875rem}
th{border-top:0;color:var(--soft);font-weight:600;font-size:.8rem}
form.choices{display:flex;flex-wrap:wrap;gap:.75rem;margin:1.5rem 0}
form.choices button{flex:0 1 10rem;padding:.75rem 1.25rem}
button.quiet{background:var(--card);border-color:var(--line);color:var(--ink)}
table.facts{max-width:46rem;margin:1.25rem 0}
table.facts th{white-space:normal;width:10rem;vertical-align:top;font-size:.875rem}
form div.choices{margin:1.5rem 0}
details.link{max-width:48rem}
li.link{border:1px solid var(--line);border-radius:.9rem;background:var(--card);box-shadow:var(--shadow);
padding:1rem 1.25rem 1.25rem;margin:1.25rem 0;max-width:48rem}
li.link h2{margin:0}
button.small{padding:.25rem .75rem;font-weight:500}
ul.plain{list-style:none;margin:0;padding:0}
.note{max-width:46rem;border-left:3px solid var(--line);padding:.1rem 0 .1rem .9rem;margin:1rem 0}
.note.warn{border-color:var(--warn);background:var(--warn-tint);padding:.6rem .9rem}
footer{color:var(--soft);font-size:.85rem;padding-top:3rem;padding-bottom:2.5rem}
`
