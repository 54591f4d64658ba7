import { type Context, Hono } from 'hono'
import { html } from 'hono/html'
import { type Page, renderPage } from '../../pages/page.ts'
import { PublicError } from '../../server/errors.ts'
import { type OpenRegistry, openRegistry, readOpen } from '../api/request/open-registry.ts'
import type { Api, RegistryEnv } from '../api/request/operation.ts'
import { LONGEST_SEARCH, PAGE_SIZE } from '../api/schemas/catalog.ts'
import { type Actor, mayReach } from '../authz/access.ts'
import { decodeCursor, encodeCursor, queryDigest } from '../catalog/cursor.ts'
import { isServerName } from '../catalog/entry.ts'
import type { VersionPage } from '../store/read/version-page.ts'
import { renderEntry, renderList } from './pages.ts'

const FOOTER = html`A catalog of MCP servers. Programs read it at <code>/registry/…/v0.1</code>; <a href="/openapi.json">API description</a>.`

const show = (c: Context, page: Omit<Page, 'footer'>, status?: Parameters<typeof renderPage>[2]) =>
  renderPage(c, { ...page, footer: FOOTER }, status)

/** Creates the routes of the catalog's pages for people. Claims decide there as in the consumer API. */
export function pageRoutes(api: Pick<Api, 'reader' | 'findVisibility'>): Hono<RegistryEnv> {
  const app = new Hono<RegistryEnv>()
  const { reader } = api

  async function readPage(
    actor: Actor,
    open: OpenRegistry,
    read: (open: OpenRegistry) => Promise<VersionPage>,
  ): Promise<VersionPage> {
    const { found } = await readOpen(api, actor, open, async (its) => {
      const page = await read(its)
      return { ...page, revision: page.rows[0]?.revision }
    })
    return found
  }

  app.get('/', async (c) => {
    const { actor } = c.var
    const registries = (await reader.registries()).filter(({ claims }) => mayReach(actor, claims))
    const names = registries.map(({ name }) => name)
    const registry = c.req.query('registry') || names[0]
    if (registry === undefined) return show(c, emptyPage)
    if (!names.includes(registry)) throw new PublicError('not_found')

    const search = c.req.query('search')?.trim().slice(0, LONGEST_SEARCH) ?? ''
    const digest = queryDigest({ page: true, registry, search })
    const cursor = c.req.query('cursor')
    const after = cursor ? decodeCursor(cursor, digest) : undefined
    if (cursor && after === undefined) throw new PublicError('invalid_request')

    const hold = (bytes: number) => c.var.held.demand(bytes)
    const query = { type: 'server', includeDeleted: false, version: 'latest', limit: PAGE_SIZE.usual, after } as const
    const { rows, more } = await readPage(actor, await openRegistry(api, actor, registry), ({ visible }) =>
      reader.list({ ...query, registry, visible, ...(search && { search }) }, hold),
    )
    const last = more ? rows.at(-1) : undefined
    const nextCursor = last && encodeCursor(last, digest)
    return show(c, renderList({ registries: names, registry, search, rows, nextCursor, isFirst: !after }))
  })

  app.get('/registry/:registry/servers/:namespace/:short', async (c) => {
    const { actor } = c.var
    const open = await openRegistry(api, actor, c.req.param('registry'))
    const { registry } = open
    const name = `${c.req.param('namespace')}/${c.req.param('short')}`
    if (!isServerName(name)) throw new PublicError('not_found')
    const hold = (bytes: number) => c.var.held.demand(bytes)
    const { rows, more } = await readPage(actor, open, ({ visible }) =>
      reader.versions({ registry, type: 'server', name, visible, includeDeleted: false }, hold),
    )
    if (rows.length === 0) throw new PublicError('not_found')
    return show(c, renderEntry({ registry, rows, more }))
  })
  return app
}

const emptyPage = {
  title: 'Catalog',
  body: html`<h1>MCP servers</h1><div class="empty">There is no registry here that you may read.</div>`,
}

/** Tells whether a browser asks for one of the pages. */
function wantsPage(c: Context): boolean {
  const { method, path } = c.req
  return (
    (method === 'GET' || method === 'HEAD') &&
    (path === '/' || /^\/registry\/[^/]+\/servers\//.test(path)) &&
    (c.req.header('accept') ?? '').includes('text/html')
  )
}

const STATUSES = [400, 401, 403, 404, 503] as const

/** Renders an error as a page; undefined if the request was not for a page, or the error has none. */
export function renderError(c: Context, error: unknown): Promise<Response> | undefined {
  if (!(error instanceof PublicError) || !wantsPage(c)) return undefined
  const status = STATUSES.find((one) => one === error.status)
  if (status === undefined) return undefined
  for (const [name, value] of Object.entries(error.headers ?? {})) c.header(name, value)
  const hint =
    status === 401
      ? html`<p class="soft">This catalog needs a bearer token, which browsers don’t send by themselves. An administrator can open a registry to everybody with <code>auth.publicPaths</code>.</p>`
      : html`<p><a href="/">To the catalog</a></p>`
  return show(c, { title: String(status), body: html`<h1>${error.message}</h1>${hint}` }, status)
}
