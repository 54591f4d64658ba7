import { createHash } from 'node:crypto'
import type { HttpBindings } from '@hono/node-server'
import { type Context, Hono } from 'hono'
import { memoize } from '../../../crds/settings/json.ts'
import { cardEndpoint } from '../../config/check/gateway.ts'
import { PublicError } from '../../server/errors.ts'
import { checkHost } from '../../server/hosts.ts'
import type { Gateway } from '../core/gateway.ts'
import { MODERN } from '../mcp/eras.ts'
import { ENDPOINT } from '../request/public-url.ts'
import type { Setup } from '../request/setup.ts'

const SCHEMA = 'https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json'
const CARD_TYPE = 'application/mcp-server-card+json'
const CATALOG_TYPE = 'application/ai-catalog+json'
const CARD_PATH = `${ENDPOINT}/server-card`
const CATALOG_PATH = '/.well-known/ai-catalog.json'
const METHODS = 'GET, HEAD, OPTIONS'

/** The headers of every answer: pages of all origins may read a card (SEP-2127). */
const HEADERS = {
  'access-control-allow-origin': '*',
  'access-control-allow-methods': 'GET',
  'access-control-allow-headers': 'Content-Type, If-None-Match',
  'access-control-expose-headers': 'ETag',
  'cache-control': 'public, max-age=3600',
  'x-content-type-options': 'nosniff',
}

interface Document {
  readonly type: string
  readonly body: string
  readonly etag: string
}

interface Documents {
  readonly card: Document
  /** Undefined unless the configuration enables it. */
  readonly catalog: Document | undefined
}

/**
 * Builds the documents of a configuration once. They contain settings of the endpoint, and nothing of backends, tools,
 * callers or requests. Undefined if there is no card.
 */
const buildDocuments = memoize((setup: Setup): { readonly documents: Documents | undefined } => {
  const { config, serverInfo } = setup
  const { serverCard } = config
  const endpoint = cardEndpoint(config)
  if (serverCard === undefined || endpoint === undefined) return { documents: undefined }
  const { name, description, title, websiteUrl, icons, repository, catalog } = serverCard
  const token = {
    name: 'Authorization',
    description: 'A bearer token of an authorization server that the endpoint names.',
    isRequired: true,
    isSecret: true,
  }
  const card = {
    $schema: SCHEMA,
    ...{ name, version: serverInfo.version, description, title, websiteUrl, repository, icons },
    remotes: [
      {
        type: 'streamable-http',
        url: endpoint,
        supportedProtocolVersions: [MODERN],
        ...(config.incomingAuth.type === 'anonymous' ? {} : { headers: [token] }),
      },
    ],
  }
  const [domain = '', own = ''] = name.split('/')
  const identifier = `urn:air:${domain.split('.').reverse().join('.')}:mcp:${own}`
  const entry = { identifier, type: CARD_TYPE, url: `${endpoint}/server-card` }
  const listed = { specVersion: '1.0', entries: [entry] }
  return {
    documents: {
      card: buildDocument(CARD_TYPE, card),
      catalog: catalog === true ? buildDocument(CATALOG_TYPE, listed) : undefined,
    },
  }
})

function buildDocument(type: string, value: object): Document {
  const body = JSON.stringify(value)
  return { type, body, etag: `"${createHash('sha256').update(body).digest('base64url')}"` }
}

/** Serves the card of the endpoint, and the catalog of the host that lists it, to everybody. */
export function serverCardRoutes(gateway: Gateway): Hono<{ Bindings: HttpBindings }> {
  const app = new Hono<{ Bindings: HttpBindings }>()
  const serve = (choose: (documents: Documents) => Document | undefined) => (c: Context, next: () => Promise<void>) => {
    const { documents } = buildDocuments(gateway.setup)
    const document = documents === undefined ? undefined : choose(documents)
    if (document === undefined) return next()
    checkHost(gateway.setup.hostNames, c.req.header('host'), undefined)
    return Promise.resolve(answer(document, c.req.method, c.req.header('if-none-match')))
  }
  const serveCard = serve(({ card }) => card)
  const serveCatalog = serve(({ catalog }) => catalog)
  // Other methods than GET are OPTIONS, or refused.
  app.get(CARD_PATH, serveCard).all(CARD_PATH, serveCard)
  app.get(CATALOG_PATH, serveCatalog).all(CATALOG_PATH, serveCatalog)
  return app
}

function answer({ type, body, etag }: Document, method: string, known: string | undefined): Response {
  if (method === 'OPTIONS') return new Response(null, { status: 204, headers: { ...HEADERS, allow: METHODS } })
  if (method !== 'GET' && method !== 'HEAD')
    throw new PublicError('method_not_allowed', { headers: { allow: METHODS, 'access-control-allow-origin': '*' } })
  const headers = { ...HEADERS, etag }
  if (known !== undefined && isKnown(known, etag)) return new Response(null, { status: 304, headers })
  return new Response(method === 'HEAD' ? null : body, {
    headers: { ...headers, 'content-type': type, 'content-length': String(Buffer.byteLength(body)) },
  })
}

/** Tells whether `If-None-Match` names this tag (RFC 9110, section 13.1.2). */
const isKnown = (header: string, etag: string): boolean =>
  header.trim() === '*' || header.split(',').some((tag) => tag.trim().replace(/^W\//, '') === etag)
