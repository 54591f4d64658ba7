import { html } from 'hono/html'
import { isObject } from '../../../crds/settings/json.ts'
import { type Connection, type Setup, setupList, setupsFor } from '../../pages/client-setup.ts'
import type { Markup, Page } from '../../pages/page.ts'
import { LONGEST_SEARCH } from '../api/schemas/catalog.ts'
import type { VersionRow } from '../store/database/version-columns.ts'
import type { VersionPage } from '../store/read/version-page.ts'

interface ListPageContent {
  readonly registries: readonly string[]
  readonly registry: string
  readonly search: string
  readonly rows: readonly VersionRow[]
  readonly nextCursor: string | undefined
  readonly isFirst: boolean
}

interface EntryPageContent extends VersionPage {
  readonly registry: string
}

const MOST_VERSIONS = 100

/** Renders a page of a registry's servers, with a search that is a plain form. */
export function renderList(content: ListPageContent): Omit<Page, 'footer'> {
  const { registries, registry, search, rows, nextCursor, isFirst } = content
  const query = (cursor?: string) =>
    `/?${new URLSearchParams({ registry, ...(search && { search }), ...(cursor !== undefined && { cursor }) })}`
  return {
    title: registry,
    place: registry,
    body: html`
<h1>MCP servers</h1>
<form class="search" method="get" action="/" role="search">
<input type="search" name="search" value="${search}" maxlength="${LONGEST_SEARCH}" placeholder="Search by name or description" aria-label="Search">
${renderChoice(registries, registry)}
<button>Search</button>
</form>
${
  rows.length === 0
    ? html`<div class="empty">${search ? html`Nothing here matches “${search}”.` : 'There is nothing here yet that you may see.'}</div>`
    : html`<ul class="cards">${rows.map((row) => renderCard(registry, row))}</ul>`
}
<nav class="pages" aria-label="Pages">
${isFirst ? '' : html`<a href="${query()}">← First page</a>`}
${nextCursor === undefined ? '' : html`<a href="${query(nextCursor)}" rel="next">Next page →</a>`}
</nav>`,
  }
}

function renderChoice(registries: readonly string[], chosen: string): Markup {
  if (registries.length === 1) return html`<input type="hidden" name="registry" value="${chosen}">`
  return html`<select name="registry" aria-label="Registry">${registries.map(
    (name) => html`<option value="${name}"${name === chosen ? html` selected` : ''}>${name}</option>`,
  )}</select>`
}

function renderCard(registry: string, row: VersionRow): Markup {
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

function entryPath(registry: string, name: string): string {
  return `/registry/${encodeURIComponent(registry)}/servers/${name.split('/').map(encodeURIComponent).join('/')}`
}

/** Renders one server: its description, how a client gets it, and its versions. */
export function renderEntry({ registry, rows, more }: EntryPageContent): Omit<Page, 'footer'> {
  const shown = rows.find(({ is_latest }) => is_latest === 1) ?? (rows[0] as VersionRow)
  const { server, title, description, ways, websiteUrl, repositoryUrl } = parseDocument(shown.document)
  const setups = listSetups(server)
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
<p class="small">${renderLink(websiteUrl, 'Website')} ${renderLink(repositoryUrl, 'Source code')}</p>
<h2>Add it to a client</h2>
${
  setups.length === 0
    ? html`<p class="soft">Its document names no way to reach it that clients know.</p>`
    : setupList(setups)
}
<h2>Versions</h2>
<table><thead><tr><th>Version</th><th>Published</th><th>Status</th></tr></thead><tbody>
${rows.slice(0, MOST_VERSIONS).map((row) => renderVersion(row))}
</tbody></table>
${renderOlder(rows.length - MOST_VERSIONS, more)}`,
  }
}

function renderOlder(left: number, more: boolean): Markup | string {
  if (more) return html`<p class="small soft">and older ones</p>`
  return left > 0 ? html`<p class="small soft">and ${left} older ones</p>` : ''
}

function renderLink(url: string | undefined, text: string): Markup | string {
  return url === undefined ? '' : html`<a href="${url}" rel="noopener nofollow">${text}</a>`
}

function renderVersion({ version, published_at, status, is_latest }: VersionRow): Markup {
  const latest = is_latest === 1 ? html` <span class="tag">latest</span>` : ''
  return html`<tr><td>${version}${latest}</td><td>${published_at.slice(0, 10)}</td><td>${status}</td></tr>`
}

/** The parts of a server document that tell how to reach it. In documents of synced sources they may be anything. */
interface Reachable {
  readonly name: string
  readonly remotes?: readonly { readonly type?: unknown; readonly url?: unknown }[]
  readonly packages?: readonly {
    readonly registryType?: unknown
    readonly identifier?: unknown
    readonly version?: unknown
    readonly environmentVariables?: unknown
  }[]
}

/** Lists the commands that add a server to common clients; none if its document does not tell how to reach it. */
export function listSetups(server: Reachable): readonly Setup[] {
  const connection = findRemote(server) ?? findPackage(server)
  if (connection === undefined) return []
  return setupsFor(server.name.split('/').at(-1) ?? server.name, connection)
}

function findRemote({ remotes }: Reachable): Connection | undefined {
  for (const { type, url } of remotes ?? [])
    if (typeof url === 'string' && /^https?:\/\//i.test(url)) return { type: type === 'sse' ? 'sse' : 'http', url }
  return undefined
}

/** Builds the command that runs a package, by the package's registry. */
const RUNNERS: Readonly<Record<string, (identifier: string, version: string | undefined) => readonly string[]>> = {
  npm: (identifier, version) => ['npx', '-y', version === undefined ? identifier : `${identifier}@${version}`],
  pypi: (identifier, version) => ['uvx', version === undefined ? identifier : `${identifier}@${version}`],
  oci: (identifier, version) => [
    'docker',
    'run',
    '-i',
    '--rm',
    version === undefined || /[:@]/.test(identifier.split('/').at(-1) ?? '') ? identifier : `${identifier}:${version}`,
  ],
  nuget: (identifier, version) => ['dnx', version === undefined ? identifier : `${identifier}@${version}`, '--yes'],
}

function findPackage({ packages }: Reachable): Connection | undefined {
  for (const { registryType, identifier, version, environmentVariables } of packages ?? []) {
    const runner = typeof registryType === 'string' && Object.hasOwn(RUNNERS, registryType) && RUNNERS[registryType]
    if (!runner || typeof identifier !== 'string') continue
    const [command = '', ...args] = runner(identifier, typeof version === 'string' ? version : undefined)
    const names = variableNames(environmentVariables)
    if (registryType === 'oci') args.splice(args.length - 1, 0, ...names.flatMap((name) => ['-e', name]))
    return {
      command,
      args,
      ...(names.length > 0 && { env: Object.fromEntries(names.map((name) => [name, `<${name}>`])) }),
    }
  }
  return undefined
}

function variableNames(variables: unknown): readonly string[] {
  if (!Array.isArray(variables)) return []
  return variables
    .map((variable: { name?: unknown } | null) => variable?.name)
    .filter((name) => typeof name === 'string' && /^\w+$/.test(name)) as string[]
}

/** Reads a stored document, which was checked on arrival. Texts are escaped when they are shown. */
function parseDocument(text: string) {
  const server = JSON.parse(text) as Reachable & Record<string, unknown>
  const { remotes = [], packages = [] } = server
  const kinds = packages.map(({ registryType }) => registryType).filter((kind) => typeof kind === 'string') as string[]
  return {
    server,
    title: readText(server['title']),
    description: readText(server['description']),
    ways: [...new Set([...(remotes.length > 0 ? ['remote'] : []), ...kinds])].slice(0, 4),
    websiteUrl: webUrl(server['websiteUrl']),
    repositoryUrl: isObject(server['repository']) ? webUrl(server['repository']['url']) : undefined,
  }
}

function readText(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

/** Returns an http or https URL; undefined for others, such as `javascript:`. */
function webUrl(value: unknown): string | undefined {
  return typeof value === 'string' && /^https?:$/.test(URL.parse(value)?.protocol ?? '') ? value : undefined
}
