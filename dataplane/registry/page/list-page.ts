import { html } from 'hono/html'
import type { Markup, Page } from '../../pages/page.ts'
import { LONGEST_SEARCH } from '../api/schemas/page-limits.ts'
import type { VersionRow } from '../store/database/version-columns.ts'
import { documentOf } from './document.ts'

export interface ListPageContent {
  /** Those that the caller may read. */
  readonly registries: readonly string[]
  readonly registry: string
  readonly search: string
  readonly rows: readonly VersionRow[]
  readonly nextCursor: string | undefined
  readonly isFirst: boolean
}

/** The servers of a registry, a page of them, with a search that is a plain form. */
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
    : html`<ul class="grid">${rows.map((row) => card(registry, row))}</ul>`
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
  const { title, description, ways } = documentOf(row.document)
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
