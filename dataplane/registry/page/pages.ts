import { html } from 'hono/html'
import { setupList } from '../../pages/client-setup.ts'
import type { Markup, Page } from '../../pages/page.ts'
import { LONGEST_SEARCH } from '../api/schemas/catalog.ts'
import type { VersionRow } from '../store/database/version-columns.ts'
import { clientSetups, parseDocument } from './document.ts'

export interface ListPageContent {
  readonly registries: readonly string[]
  readonly registry: string
  readonly search: string
  readonly rows: readonly VersionRow[]
  readonly nextCursor: string | undefined
  readonly isFirst: boolean
}

interface EntryPageContent {
  readonly registry: string
  readonly rows: readonly VersionRow[]
  readonly more: boolean
}

const MOST_VERSIONS = 100

/** Renders a page of a registry's servers, with a search that is a plain form. */
export function listPage({
  registries,
  registry,
  search,
  rows,
  nextCursor,
  isFirst,
}: ListPageContent): Omit<Page, 'footer'> {
  const query = (cursor?: string) =>
    `/?${new URLSearchParams({ registry, ...(search && { search }), ...(cursor !== undefined && { cursor }) })}`
  return {
    title: registry,
    place: registry,
    body: html`
<h1>MCP servers</h1>
<form class="search" method="get" action="/" role="search">
<input type="search" name="search" value="${search}" maxlength="${LONGEST_SEARCH}" placeholder="Search by name or description" aria-label="Search">
${choice(registries, registry)}
<button>Search</button>
</form>
${
  rows.length === 0
    ? html`<div class="empty">${search ? html`Nothing here matches “${search}”.` : 'There is nothing here yet that you may see.'}</div>`
    : html`<ul class="cards">${rows.map((row) => card(registry, row))}</ul>`
}
<nav class="pages" aria-label="Pages">
${isFirst ? '' : html`<a href="${query()}">← First page</a>`}
${nextCursor === undefined ? '' : html`<a href="${query(nextCursor)}" rel="next">Next page →</a>`}
</nav>`,
  }
}

function choice(registries: readonly string[], chosen: string): Markup {
  if (registries.length === 1) return html`<input type="hidden" name="registry" value="${chosen}">`
  return html`<select name="registry" aria-label="Registry">${registries.map(
    (name) => html`<option value="${name}"${name === chosen ? html` selected` : ''}>${name}</option>`,
  )}</select>`
}

function card(registry: string, row: VersionRow): Markup {
  const { title, description, ways } = parseDocument(row.document)
  return html`<li><a class="card" href="${entryPath(registry, row.name)}">
<b>${title ?? row.name.split('/').at(-1)}</b>
<span class="name">${row.name}</span>
<span class="about">${description ?? ''}</span>
<span class="tags"><span class="tag quiet">${row.version}</span>${ways.map((way) => html`<span class="tag">${way}</span>`)}${
    row.status === 'active' ? '' : html`<span class="tag warn">${row.status}</span>`
  }</span>
</a></li>`
}

export function entryPath(registry: string, name: string): string {
  return `/registry/${encodeURIComponent(registry)}/servers/${name.split('/').map(encodeURIComponent).join('/')}`
}

/** Renders one server: its description, how a client gets it, and its versions. */
export function entryPage({ registry, rows, more }: EntryPageContent): Omit<Page, 'footer'> {
  const shown = rows.find(({ is_latest }) => is_latest === 1) ?? (rows[0] as VersionRow)
  const { server, title, description, ways, websiteUrl, repositoryUrl } = parseDocument(shown.document)
  const setups = clientSetups(server)
  const name = title ?? shown.name.split('/').at(-1) ?? shown.name
  return {
    title: name,
    place: registry,
    body: html`
<p class="small"><a href="/?${new URLSearchParams({ registry })}">← ${registry}</a></p>
<h1>${name}</h1>
<p><code class="soft">${shown.name}</code></p>
<p>${description ?? ''}</p>
<p class="tags"><span class="tag quiet">${shown.version}</span>${ways.map((way) => html`<span class="tag">${way}</span>`)}${
      shown.status === 'active' ? '' : html`<span class="tag warn">${shown.status}</span>`
    }</p>
${shown.status_message === null ? '' : html`<p class="soft">${shown.status_message}</p>`}
<p class="small">${link(websiteUrl, 'Website')} ${link(repositoryUrl, 'Source code')}</p>
<h2>Add it to a client</h2>
${
  setups.length === 0
    ? html`<p class="soft">Its document names no way to reach it that clients know.</p>`
    : setupList(setups)
}
<h2>Versions</h2>
<table><thead><tr><th>Version</th><th>Published</th><th>Status</th></tr></thead><tbody>
${rows.slice(0, MOST_VERSIONS).map((row) => versionRow(row))}
</tbody></table>
${olderOnes(rows.length - MOST_VERSIONS, more)}`,
  }
}

function olderOnes(left: number, more: boolean): Markup | string {
  if (more) return html`<p class="small soft">and older ones</p>`
  return left > 0 ? html`<p class="small soft">and ${left} older ones</p>` : ''
}

function link(url: string | undefined, text: string): Markup | string {
  return url === undefined ? '' : html`<a href="${url}" rel="noopener nofollow">${text}</a>`
}

function versionRow({ version, published_at, status, is_latest }: VersionRow): Markup {
  const latest = is_latest === 1 ? html` <span class="tag">latest</span>` : ''
  return html`<tr><td>${version}${latest}</td><td>${published_at.slice(0, 10)}</td><td>${status}</td></tr>`
}
