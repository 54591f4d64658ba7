import { BASE_STYLE } from '../../dataplane/pages/style.ts'

/** Returns the style that shows each row of a table as a card. */
const styleCards = (table: string): string => `
${table} thead{position:absolute;left:-999rem}
${table},${table} table,${table} tbody,${table} caption{display:block}
${table} tr{display:grid;grid-template-columns:minmax(0,1fr);gap:var(--p1);padding:var(--p3) var(--p4);
border-top:1px solid var(--line)}
${table} tr:first-child{border-top:0}
${table} th,${table} td{border:0;padding:0;min-width:0;text-align:left;display:block}
${table} td[data-label]{position:relative;padding-left:7rem;min-height:1.5rem}
${table} td[data-label]::before{content:attr(data-label);color:var(--soft);font-size:var(--s1);position:absolute;left:0}
${table} td.none{display:none}`

/**
 * The console's style sheet. It adds the frame, tables that become cards, states, the map and charts to the common
 * base.
 */
export const CONSOLE_STYLE = `${BASE_STYLE}
body{display:grid;min-height:100vh;grid-template:auto auto 1fr auto/minmax(0,1fr)}
main:focus{outline:none}
.skip{position:absolute;left:-999rem;top:var(--p2);background:var(--accent);color:var(--on-accent);padding:var(--p2) var(--p4);
z-index:9}
.skip:focus{left:var(--p2)}
header.rail{background:var(--side);border-bottom:1px solid var(--line)}
.brand{display:flex;align-items:center;gap:var(--p2);padding:var(--p4) var(--p4) 0;font-size:var(--s3);font-weight:650;
letter-spacing:-.01em}
.brand a{color:var(--ink);text-decoration:none}
.where{padding:var(--p2) var(--p4) 0;color:var(--soft);font-size:var(--s1)}
.where b{color:var(--ink);font-weight:600}
.where form{margin-top:var(--p2)}
.find{padding:var(--p3) var(--p4) 0}
.find input{width:100%}
nav.main{padding:var(--p2) var(--p2) var(--p2)}
nav.main ul{display:flex;flex-wrap:wrap;gap:var(--p1);list-style:none;margin:0;padding:0}
nav.main a{display:block;padding:var(--p1) var(--p2);border-radius:var(--r1);color:var(--soft);text-decoration:none;font-weight:550;
white-space:nowrap}
nav.main a:focus-visible{outline-offset:-3px}
nav.main a:hover{background:var(--quiet-tint);color:var(--ink)}
nav.main a[aria-current]{background:var(--tint);color:var(--accent);font-weight:650}
main{padding:var(--p5) var(--p4) var(--p6);min-width:0}
footer{padding:var(--p4);color:var(--soft);font-size:var(--s1);border-top:1px solid var(--line);display:flex;flex-wrap:wrap;
gap:var(--p2) var(--p5)}
@media(max-width:59.99rem){
.stay,.where{display:flex;flex-wrap:wrap;align-items:center;gap:0 var(--p3)}
.where{padding-top:var(--p4)}
.where form{margin:0}
.find,nav.main{flex:0 0 100%;min-width:0}}
@media(min-width:60rem){
body{grid-template:1fr auto/15rem minmax(0,1fr)}
header.rail{grid-row:1/3;border:0;border-right:1px solid var(--line)}
.stay{position:sticky;top:0;max-height:100vh;overflow:auto}
.brand{padding-top:var(--p5)}
nav.main{padding:var(--p4) var(--p2)}
nav.main ul{flex-direction:column;flex-wrap:nowrap}
nav.main a{padding:var(--p2) var(--p3);border-radius:var(--r2)}
main{padding:var(--p6) var(--p6) var(--p6);max-width:82rem}
footer{grid-column:2;padding:var(--p4) var(--p6)}}
body.alone{display:flex;flex-direction:column;align-items:center;justify-content:center;gap:var(--p5);
padding:var(--p5) var(--p4)}
.alone header.rail{background:none;border:0}
.alone .brand{padding:0;font-size:var(--s4)}
.alone main{width:100%;max-width:32rem;padding:var(--p6);background:var(--card);border:1px solid var(--line);
border-radius:var(--r2)}
.alone main>:last-child{margin-bottom:0}
.alone footer{display:none}
.alone .acts .button{font-size:var(--s2)}
@media(max-width:30rem){.alone main{padding:var(--p5)}}
.num{font-variant-numeric:tabular-nums;text-align:right}
.table .num,time{white-space:nowrap}
.lead{color:var(--soft);max-width:46rem;margin-bottom:var(--p5)}
.crumbs{font-size:var(--s1);margin:0 0 var(--p2);color:var(--soft)}
.top{display:flex;flex-wrap:wrap;align-items:center;gap:var(--p2) var(--p3)}
.top h1,.top h2,.top h3{margin:0}
.top .end{margin-left:auto}
.tabs{display:flex;flex-wrap:wrap;gap:0 var(--p5);list-style:none;margin:var(--p4) 0 var(--p5);padding:0;
border-bottom:1px solid var(--line)}
.tabs li{max-width:100%}
.tabs a{display:block;overflow:hidden;text-overflow:ellipsis;padding:var(--p2) 0;color:var(--soft);text-decoration:none;border-bottom:3px solid transparent;
font-weight:550;white-space:nowrap}
.tabs a:focus-visible{outline-offset:-3px}
.tabs a:hover{color:var(--ink)}
.tabs a[aria-current]{color:var(--ink);border-color:var(--accent)}
.state{display:inline-flex;align-items:center;gap:var(--p1);white-space:nowrap;font-size:var(--s1);font-weight:600;line-height:1.5;
padding:0 var(--p2);border-radius:2rem;background:var(--quiet-tint);color:var(--quiet)}
.state.ill{background:var(--ill-tint);color:var(--ill)}
.state.attention{background:var(--look-tint);color:var(--look)}
.state.well{background:var(--well-tint);color:var(--well)}
.tally{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,6rem),1fr));gap:var(--p4);margin:var(--p5) 0;padding:0;
list-style:none}
.tally a{display:block;height:100%;background:var(--card);border:1px solid var(--line);border-radius:var(--r2);padding:var(--p4);
color:inherit;text-decoration:none}
.tally a:hover{border-color:var(--accent)}
.tally b{display:block;font-size:var(--s5);line-height:1.1;letter-spacing:-.03em;font-weight:650;
font-variant-numeric:tabular-nums}
.tally .ill{border-color:var(--ill);background:var(--ill-tint)}.tally .attention{border-color:var(--look);
background:var(--look-tint)}
.tally .ill b{color:var(--ill)}.tally .attention b{color:var(--look)}.tally .well b{color:var(--well)}
.tally .none b{color:var(--soft)}
@media(max-width:30rem){.tally:has(>:nth-child(4)){grid-template-columns:1fr 1fr}}
.incidents{list-style:none;margin:0;padding:0;display:grid;gap:var(--p3);grid-template-columns:minmax(0,1fr)}
.incident{background:var(--card);border:1px solid var(--line);border-left:.375rem solid var(--look);border-radius:var(--r2);
padding:var(--p4)}
.incident.ill{border-left-color:var(--ill)}
.incident h3{margin:0 0 var(--p1);display:flex;flex-wrap:wrap;gap:var(--p1) var(--p3);align-items:center}
.incident p{margin:var(--p1) 0}
.incident .says{font-family:var(--mono);font-size:var(--s1);background:var(--code);border-radius:var(--r1);
padding:var(--p2) var(--p3);max-width:none;max-height:12rem;overflow:auto}
.acts{display:flex;flex-wrap:wrap;gap:var(--p1) var(--p4);margin-top:auto;font-size:var(--s1);font-weight:600}
.incident .acts{margin-top:var(--p2)}
.acts+p,form.fields+p{margin-top:var(--p4)}
.calm{background:var(--well-tint);color:var(--well);border-radius:var(--r2);padding:var(--p3) var(--p4);font-weight:600;
max-width:none}
.card h3{margin:0}
.card p{margin:0;color:var(--soft);font-size:var(--s1)}
.address{display:flex;gap:var(--p2);align-items:center;font-size:var(--s1);background:var(--code);border:1px solid var(--line);
border-radius:var(--r1);padding:var(--p1) var(--p1) var(--p1) var(--p3);max-width:46rem}
.address code{flex:1;min-width:0;font-size:1em}
.table{overflow:auto;border:1px solid var(--line);border-radius:var(--r2);background:var(--card)}
.cards+.table{margin-top:var(--p4)}
.cards.steps{grid-template-columns:repeat(auto-fit,minmax(min(100%,9.5rem),1fr));margin-bottom:var(--p4)}
.cards.broad{grid-template-columns:repeat(auto-fill,minmax(min(100%,26rem),1fr))}
.table :is(th,td){min-width:5.5rem}
@media(min-width:44.01rem){.table .mid{min-width:7.5rem}.table .wide{min-width:12rem}.table th.wide{min-width:16rem}}
caption{text-align:left;padding:var(--p3) var(--p4) 0;color:var(--soft);font-size:var(--s1)}
td.num,th.num{text-align:right}
tbody tr:hover,tr:focus-within{background:var(--code)}
tr:target{background:var(--tint)}
@media(max-width:44rem){${styleCards('.table')}}
@media(max-width:75rem){${styleCards('.table.broad')}}
form.filter{display:flex;flex-wrap:wrap;gap:var(--p3);align-items:end;margin:var(--p4) 0}
label{display:block;font-size:var(--s1);font-weight:600;color:var(--soft)}
label>span{display:block;margin-bottom:var(--p1)}
label.check{display:flex;gap:var(--p2);align-items:center;min-height:2.5rem}
.filter input:not([type=checkbox]),.filter select,.filter button{height:2.5rem}
@media(max-width:44rem){.filter label:not(.check){flex:1 1 9rem}.filter label :is(input:not([type=checkbox]),select){width:100%}}
textarea{width:100%;min-height:7rem;font-family:var(--mono);font-size:var(--s1)}
textarea.low{min-height:4rem}
input[type=checkbox]{width:1.125rem;height:1.125rem;vertical-align:middle;accent-color:var(--accent)}
.copied{position:relative}
.copied pre{margin:0;max-height:60vh;min-height:3rem;padding-right:5.5rem}
.copied button{position:absolute;top:var(--p2);right:var(--p2)}
pre{max-height:60vh}
dl.facts{display:grid;grid-template-columns:minmax(7rem,12rem) minmax(0,1fr);gap:var(--p2) var(--p4);margin:var(--p4) 0;
max-width:60rem}
dl.facts dt{color:var(--soft);font-size:var(--s1);padding-top:.125rem}
dl.facts dd{margin:0}
@media(max-width:30rem){dl.facts{grid-template-columns:minmax(0,1fr);gap:0}dl.facts dd{margin-bottom:var(--p3)}}
ul.tree{list-style:none;margin:var(--p1) 0;padding-left:var(--p4);border-left:1px solid var(--line)}
ul.tree.root{padding-left:0;border:0}
ul.tree li{margin:var(--p1) 0}
fieldset{border:1px solid var(--line);border-radius:var(--r2);margin:var(--p4) 0;padding:var(--p3) var(--p4) var(--p4);min-width:0}
legend{font-weight:600;padding:0 var(--p1)}
.fields{display:grid;gap:var(--p4);max-width:46rem;grid-template-columns:minmax(0,1fr)}
.fields .hint{font-weight:400}
.fields input:not([type=checkbox]),.fields select{width:100%}
.map{border:1px solid var(--line);border-radius:var(--r2);background:var(--card);overflow:auto;margin:var(--p4) 0}
.map>svg{display:block;max-width:none;height:auto}
@media(max-width:44rem){.map,.of-map{display:none}.tabs{column-gap:var(--p4)}}
.map .edge{fill:none;stroke:var(--soft);stroke-width:1.5;opacity:.55}
.map .box rect{fill:var(--bg);stroke:var(--soft);stroke-width:1}
.map .box.ill rect{fill:var(--ill-tint);stroke:var(--ill)}
.map .box.attention rect{fill:var(--look-tint);stroke:var(--look)}
.map .box.well rect{stroke:var(--well)}
.map .box.missing rect{stroke-dasharray:5 4;stroke:var(--ill)}
.map text{fill:var(--ink);font-size:13px;font-weight:600}
.map .kind{fill:var(--soft);font-weight:400}
.map a{text-decoration:none}
.map a:hover rect{stroke-width:2.5}
.chart{display:block;width:100%;min-width:4rem;height:auto;color:var(--accent)}
.bar{fill:var(--accent)}
.live{position:sticky;top:var(--p2);z-index:3}
dialog{border:1px solid var(--line);border-radius:var(--r2);background:var(--card);color:var(--ink);padding:var(--p5);
max-width:min(34rem,92vw)}
kbd{font-family:var(--mono);font-size:var(--s1);border:1px solid var(--line);border-bottom-width:2px;border-radius:var(--r1);
padding:0 var(--p1);background:var(--code)}
@media(prefers-reduced-motion:no-preference){.tally a,nav.main a{transition:border-color .15s,background-color .15s}}
@media(forced-colors:active){.state,.tag,.tally a,.incident,.card{border:1px solid CanvasText}.map .edge{stroke:CanvasText}
.map text,.map .kind{fill:CanvasText}.map .box rect{fill:Canvas;stroke:LinkText}nav.main a[aria-current]{border:2px solid Highlight}
.tabs a[aria-current]{border-bottom-color:Highlight}}
`
