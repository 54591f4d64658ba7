import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { html, raw } from 'hono/html'
import { STYLE } from '../dataplane/pages/style.ts'
import type { Heading } from './markdown.ts'

/** A group of pages in the navigation. */
interface Section {
  readonly title: string
  /** Markdown files by their paths below the root. */
  readonly files: readonly string[]
}

/** The order in which a reader meets the pages. Files that a revision does not have are left out. */
const ORDER: readonly Section[] = [
  { title: 'Start', files: ['README.md', 'docs/first-hour.md', 'docs/install.md'] },
  {
    title: 'Tasks',
    files: [
      'docs/clients.md',
      'docs/enterprise.md',
      'docs/machines.md',
      'docs/login-providers.md',
      'docs/authentication.md',
      'docs/authorization.md',
      'docs/rate-limits.md',
      'docs/workflows.md',
      'docs/tool-search.md',
      'docs/gitops.md',
      'docs/console.md',
      'docs/kubectl.md',
    ],
  },
  {
    title: 'Concepts',
    files: [
      'docs/glossary.md',
      'docs/backends.md',
      'docs/protocol.md',
      'docs/skills.md',
      'docs/discovery.md',
      'docs/sessions.md',
      'docs/authorization-server.md',
      'docs/tokens.md',
      'docs/registry.md',
      'docs/operator.md',
    ],
  },
  { title: 'Reference', files: ['docs/reference/README.md'] },
  {
    title: 'Operate',
    files: [
      'docs/production.md',
      'docs/troubleshooting.md',
      'docs/security.md',
      'docs/audit.md',
      'docs/telemetry.md',
      'docs/performance.md',
      'SECURITY.md',
      'CHANGELOG.md',
    ],
  },
  { title: 'Contribute', files: ['CONTRIBUTING.md', 'docs/architecture.md', 'docs/decisions/README.md'] },
]

/** Returns the Markdown files of a folder below the root: the overview first, then by name. */
function listFolder(root: string, folder: string): readonly string[] {
  const names = readdirSync(join(root, folder)).filter((name) => name.endsWith('.md'))
  return names
    .sort((a, b) => Number(b === 'README.md') - Number(a === 'README.md') || a.localeCompare(b))
    .map((name) => `${folder}/${name}`)
}

/** Returns the sections of the site for the checkout at `root`. Pages of docs/ without a section come under Tasks. */
export function readContents(root: string): readonly Section[] {
  const exists = (file: string) => {
    try {
      readFileSync(join(root, file))
      return true
    } catch {
      return false
    }
  }
  // The list of all pages is what the navigation shows.
  const named = new Set(['docs/README.md', ...ORDER.flatMap(({ files }) => files)])
  const others = listFolder(root, 'docs').filter((file) => !named.has(file))
  return ORDER.map(({ title, files }) => {
    const found = files.filter(exists).flatMap((file) => {
      const folder = /^(docs\/\w+)\/README\.md$/.exec(file)?.[1]
      return folder === undefined ? [file] : listFolder(root, folder)
    })
    return { title, files: title === 'Tasks' ? [...found, ...others] : found }
  }).filter(({ files }) => files.length > 0)
}

/** The rules beyond those of the product's own pages: a navigation beside the text, and text made for reading. */
export const SITE_STYLE = `${STYLE}
body{font-size:16px}
header.top a,nav a,.turn a,.hits a{text-decoration:none}
.skip{position:absolute;left:-99rem}
.skip:focus{left:1rem;top:.5rem;background:var(--card);padding:.4rem .8rem;z-index:2}
header.top{max-width:none;padding:.7rem 1.25rem;border-bottom:1px solid var(--line);background:var(--card);position:sticky;top:0;z-index:1;flex-wrap:wrap}
header.top .find{margin-left:auto;flex:0 1 22rem;position:relative}
header.top input{width:100%;padding:.4rem .75rem}
header.top select{padding:.4rem .6rem}
.hits{position:absolute;right:0;top:calc(100% + .4rem);width:min(34rem,92vw);max-height:70vh;overflow:auto;background:var(--card);
border:1px solid var(--line);border-radius:.75rem;box-shadow:0 8px 30px rgb(0 0 0/.18);padding:.4rem;margin:0;list-style:none}
.hits a{display:block;font-weight:600;padding:.5rem .75rem;border-radius:.5rem;color:var(--ink)}
.hits a:hover,.hits a:focus{background:var(--tint);text-decoration:none}
.hits li{margin:0}
.hits small{display:block;font-weight:400;color:var(--soft)}
.hits p{padding:.5rem .75rem;margin:0;color:var(--soft)}
.frame{display:grid;grid-template-columns:16rem minmax(0,46rem) 13rem;gap:2.5rem;max-width:84rem;margin:0 auto;padding:1.5rem 1.25rem 4rem}
.frame main{max-width:none;margin:0;padding:0}
nav.pages{display:block;margin:0;font-size:.925rem}
nav.pages>details{background:none;border:0;border-radius:0;margin:0}
nav.pages>details>*:not(summary){margin-left:0;margin-right:0}
nav.pages summary.menu{display:none}
nav h2{font-size:.75rem;text-transform:uppercase;letter-spacing:.06em;color:var(--soft);margin:1.25rem 0 .35rem}
nav ul{list-style:none;margin:0;padding:0}
nav li a{display:block;padding:.2rem .6rem;border-radius:.4rem;color:var(--ink);border-left:2px solid transparent}
nav li a:hover{background:var(--code);text-decoration:none}
nav li a[aria-current]{background:var(--tint);color:var(--accent);font-weight:600}
nav.here{font-size:.85rem;position:sticky;top:4.5rem;align-self:start;max-height:calc(100vh - 6rem);overflow:auto}
nav.here li a{padding:.15rem .4rem;color:var(--soft)}
nav.here .deep{padding-left:.9rem}
main h1{font-size:2rem}
main h2{font-size:1.35rem;margin-top:2.5rem;padding-top:.25rem}
main h3{font-size:1.1rem;margin:1.75rem 0 .5rem}
main :is(h1,h2,h3,h4){scroll-margin-top:4.5rem}
main ul,main ol{padding-left:1.4rem}
main li{margin:.25rem 0}
main pre{white-space:pre}
main p code,main li code,main td code{background:var(--code);border-radius:.3rem;padding:.1em .3em}
main table{display:block;overflow-x:auto;width:fit-content;max-width:100%;margin:1rem 0}
main td,main td+td{white-space:normal;vertical-align:top;min-width:7rem;overflow-wrap:break-word}
main th{white-space:nowrap;font-size:.85rem}
main tr{scroll-margin-top:4.5rem}
main tr:target{background:var(--tint)}
blockquote{border-left:3px solid var(--accent);margin:1rem 0;padding:.1rem 0 .1rem 1rem;color:var(--soft)}
.turn{display:flex;justify-content:space-between;gap:1rem;margin-top:3rem;padding-top:1rem;border-top:1px solid var(--line)}
@media(max-width:70rem){.frame{grid-template-columns:15rem minmax(0,1fr)}nav.here{display:none}}
@media(max-width:48rem){.frame{display:block;padding-top:.75rem}nav.pages summary.menu{display:list-item;padding:.5rem 0}
main table,main tbody,main tr,main td{display:block;width:auto}
main thead{position:absolute;left:-99rem}
main tr{border-top:1px solid var(--line);padding:.5rem 0}
main tr:first-child{border-top:0}
main td{border:0;padding:.15rem .9rem}
main td:empty{display:none}
main td:not(:first-child)::before{content:attr(data-label);display:block;font-size:.75rem;color:var(--soft)}
main td[data-label=""]::before{display:none}
nav.pages>details[open]{padding-bottom:1rem;border-bottom:1px solid var(--line)}header.top .find{flex-basis:100%}}
@media print{header.top,nav,.turn{display:none}.frame{display:block}}
`

/** A page of the navigation, with its address from the page that shows it. */
interface Entry {
  readonly title: string
  readonly href: string
  readonly isHere: boolean
}

interface SitePage {
  readonly title: string
  readonly article: string
  readonly headings: readonly Heading[]
  readonly sections: readonly { readonly title: string; readonly entries: readonly Entry[] }[]
  /** The way from the page to the root of its version: '' or '../'. */
  readonly base: string
  /** The path of the page below the root of its version. */
  readonly path: string
  readonly version: string
  /** True where several versions are side by side, listed by the script beside their folders. */
  readonly hasVersions: boolean
}

const MARK = raw(
  '<svg class="mark" viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true"><path d="M3 8 12 3l9 5v2H3z"/><path d="M5 10v9M10 10v9M14 10v9M19 10v9M3 21h18"/></svg>',
)

/** Renders a whole page of the site. It works without JavaScript, from `file:` and below any path. */
export async function renderSitePage(page: SitePage): Promise<string> {
  const { title, article, headings, sections, base, path, version, hasVersions } = page
  const entries = sections.flatMap((section) => section.entries)
  const here = entries.findIndex(({ isHere }) => isHere)
  const [before, after] = [entries[here - 1], entries[here + 1]]
  const parts = headings.filter(({ level }) => level === 2 || level === 3)
  return String(
    await html`<!doctype html>
<html lang="en" data-base="${base}" data-path="${path}" data-version="${version}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="content-security-policy" content="default-src 'none'; style-src 'self' file:; script-src 'self' file:; img-src 'self' file:; base-uri 'none'; form-action 'none'">
<title>${title} · Portico</title>
<link rel="stylesheet" href="${base}site.css">
</head>
<body>
<a class="skip" href="#text">Skip to the text</a>
<header class="top">${MARK}<a href="${base}index.html">Portico</a><span>documentation</span><site-versions></site-versions><site-search class="find"></site-search></header>
<div class="frame">
<nav class="pages" aria-label="Pages"><details open><summary class="menu">All pages</summary>
${sections.map(
  ({ title, entries }) =>
    html`<h2>${title}</h2><ul>${entries.map(
      ({ title, href, isHere }) =>
        html`<li><a href="${href}"${isHere ? raw(' aria-current="page"') : ''}>${title}</a></li>`,
    )}</ul>`,
)}
</details></nav>
<main id="text">${raw(article)}
<p class="turn">${before ? html`<a href="${before.href}">← ${before.title}</a>` : html`<span></span>`}${after ? html`<a href="${after.href}">${after.title} →</a>` : ''}</p></main>
<nav class="here" aria-label="On this page">${
      parts.length < 2
        ? ''
        : html`<h2>On this page</h2><ul>${parts.map(
            ({ level, text, id }) =>
              html`<li><a${level === 3 ? raw(' class="deep"') : ''} href="#${id}">${text}</a></li>`,
          )}</ul>`
    }</nav>
</div>
<script src="${base}minisearch.js"></script>
<script src="${base}search-index.js"></script>
${hasVersions ? html`<script src="${base}../versions.js"></script>` : ''}
<script src="${base}site.js"></script>
</body>
</html>
`,
  )
}
