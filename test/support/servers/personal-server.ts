import type { ServerResponse } from 'node:http'
import { answer, type RawRequest, type RawServer, startRawServer } from './raw-server.ts'

/** A stream of updates, and its owner. */
interface Stream {
  readonly owner: string
  readonly res: ServerResponse
}

interface PersonalServerOptions {
  /** Scheme of its URIs. */
  readonly name: string
  readonly era: 'modern' | 'legacy'
  /** Gets a line for each request in which one owner reaches something of another. */
  readonly faults: string[]
}

export interface PersonalServer extends RawServer {
  /** Notifies an owner's streams of a changed resource, and returns their number. */
  notify(owner: string, uri: string): number
  /** Values of `Authorization` that it no longer accepts. */
  readonly revoked: Set<string>
  /** Ends an owner's streams. */
  cut(owner: string): void
}

/** The owner of requests without credentials: those of the gateway itself, or all if no credential is sent. */
export const NOBODY = 'nobody'

/** Returns the owner of a request's credential, `of-OWNER-for-…`. */
const readOwner = ({ headers }: Pick<RawRequest, 'headers'>): string =>
  /^Bearer of-(\w+)-for-\w+$/.exec(headers.authorization ?? '')?.[1] ?? NOBODY

/**
 * A backend with one owner for each session and stream. It shows each owner a tool, a prompt and a resource that are
 * named after the owner, and `common` ones that answer with the owner's name. A read notifies the owner's streams.
 */
export async function startPersonalServer({ name, era, faults }: PersonalServerOptions): Promise<PersonalServer> {
  const owners = new Map<string, string>()
  const streams = new Set<Stream>()
  const revoked = new Set<string>()
  let sessions = 0

  const capabilities = { tools: {}, prompts: {}, resources: { subscribe: true } }
  const lists: Readonly<Record<string, (owner: string) => object>> = {
    'server/discover': () => ({ supportedVersions: ['2026-07-28'], capabilities, ttlMs: 0, cacheScope: 'private' }),
    'tools/list': (owner) => ({
      tools: buildNamed('t', owner).map((one) => ({ ...one, inputSchema: { type: 'object' } })),
    }),
    'prompts/list': (owner) => ({ prompts: buildNamed('p', owner) }),
    'resources/list': (owner) => ({
      resources: [owner, 'common'].map((one) => ({ uri: `${name}://${one}`, name: one })),
    }),
    'resources/templates/list': () => ({ resourceTemplates: [] }),
    'resources/subscribe': () => ({}),
  }
  const uses: Readonly<Record<string, (owner: string) => object>> = {
    'tools/call': (owner) => ({ content: [{ type: 'text', text: owner }] }),
    'prompts/get': (owner) => ({ messages: [{ role: 'user', content: { type: 'text', text: owner } }] }),
    'resources/read': (owner) => ({ contents: [{ uri: `${name}://${owner}`, text: owner }] }),
  }

  function stream(owner: string, res: ServerResponse): void {
    res.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
    const opened = { owner, res }
    streams.add(opened)
    res.once('close', () => streams.delete(opened))
  }

  function notify(owner: string, uri: string): number {
    const own = [...streams].filter((one) => one.owner === owner)
    for (const { res } of own) res.write(event('notifications/resources/updated', { uri }))
    return own.length
  }

  function listen(owner: string, request: RawRequest, res: ServerResponse): void {
    const notifications = request.message.params?.['notifications'] as { resourceSubscriptions?: string[] }
    for (const uri of notifications.resourceSubscriptions ?? [])
      if (uri !== `${name}://${owner}` && uri !== `${name}://common`) faults.push(`${owner} watches ${uri}`)
    stream(owner, res)
    res.write(event('notifications/subscriptions/acknowledged', { notifications }))
  }

  /** Checks that a called, fetched or read item belongs to the owner. */
  function checkUse(owner: string, { message: { method, params = {} } }: RawRequest): void {
    const of = String(params['name'] ?? params['uri'])
    const { who } = (params['arguments'] ?? {}) as { who?: string }
    if (owner === NOBODY || (!of.endsWith(owner) && !of.endsWith('common')) || (who !== undefined && who !== owner))
      faults.push(`${owner} does ${method} of ${of} for ${who}`)
  }

  const server = await startRawServer({
    era,
    call: () => undefined,
    before(request, res) {
      const owner = readOwner(request)
      const { method = '' } = request.message
      const session = request.headers['mcp-session-id']
      if (typeof session === 'string' && owners.get(session) !== owner)
        faults.push(`${owner} is in the session of ${owners.get(session)}`)
      if (revoked.has(request.headers.authorization ?? '')) {
        res.writeHead(401).end()
        return true
      }
      const json = (result: object, more = {}) => {
        res.writeHead(200, { 'content-type': 'application/json', ...more })
        res.end(answer(request, JSON.stringify({ resultType: 'complete', ...result })))
      }
      if (request.method === 'GET') stream(owner, res)
      else if (method === 'subscriptions/listen') listen(owner, request, res)
      else if (method === 'initialize' && era === 'legacy') {
        const id = `session-${++sessions}`
        owners.set(id, owner)
        const serverInfo = { name, version: '1' }
        json({ protocolVersion: '2025-11-25', capabilities, serverInfo }, { 'mcp-session-id': id })
      } else if (uses[method] !== undefined) {
        checkUse(owner, request)
        json(uses[method](owner))
        if (method === 'resources/read') notify(owner, `${name}://${owner}`)
      } else if (lists[method] !== undefined && !(method === 'server/discover' && era === 'legacy'))
        json(lists[method](owner))
      else return false
      return true
    },
  })
  const cut = (owner: string) => {
    for (const one of streams) {
      if (one.owner !== owner) continue
      streams.delete(one)
      one.res.end()
    }
  }
  return Object.assign(server, { notify, revoked, cut })
}

const buildNamed = (kind: string, owner: string) => [{ name: `${kind}-${owner}` }, { name: 'common' }]

const event = (method: string, params: object): string =>
  `data: ${JSON.stringify({ jsonrpc: '2.0', method, params })}\n\n`
