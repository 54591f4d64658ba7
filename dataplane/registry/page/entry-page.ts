import { html } from 'hono/html'
import type { Markup, Page } from '../../pages/page.ts'
import { setupList } from '../../pages/setup-list.ts'
import type { VersionRow } from '../store/database/version-columns.ts'
import { clientSetups } from './client-setup.ts'
import { documentOf } from './document.ts'

export interface EntryPageContent {
  readonly registry: string
  /** Newest first; at least one. */
  readonly rows: readonly VersionRow[]
  /** Whether there are more, older than these. */
  readonly more: boolean
}

const MOST_VERSIONS = 100

/** One server: what it is, how a client gets it, and its versions. */
export function entryPage({ registry, rows, more }: EntryPageContent): Omit<Page, 'footer'> {
  const shown = rows.find(({ is_latest }) => is_latest === 1) ?? (rows[0] as VersionRow)
  const { server, title, description, ways, websiteUrl, repositoryUrl } = documentOf(shown.document)
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
