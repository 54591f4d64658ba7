import type { HttpBindings } from '@hono/node-server'
import { type Context, Hono } from 'hono'
import { accepts } from 'hono/accepts'
import { html } from 'hono/html'
import { renderPage } from '../../pages/page.ts'
import { errorResponse } from '../../server/answer.ts'
import { PublicError } from '../../server/errors.ts'
import type { Gateway } from '../core/gateway.ts'
import { checkOrigin } from '../request/cross-origin.ts'
import { gatewayPage } from './gateway-page.ts'
import { buildOverview, type Overview } from './overview.ts'

type Format = 'text/html' | 'application/json' | 'text/plain'

const HEADERS = { 'cache-control': 'private, no-cache', vary: 'Accept, Origin', 'x-content-type-options': 'nosniff' }

/** Serves the root of the public listener: the address of the MCP endpoint, in a form that the caller accepts. */
export function rootRoutes(gateway: Gateway): Hono<{ Bindings: HttpBindings }> {
  const app = new Hono<{ Bindings: HttpBindings }>()
  app.use('/', (c, next) => {
    checkOrigin(gateway.setup, c.env.incoming.headers)
    return next()
  })
  app.get('/', (c, next) => {
    // A client that asks for events expects an MCP endpoint here.
    if (c.req.header('accept')?.toLowerCase().includes('text/event-stream')) return next()
    return answer(c, buildOverview(gateway, c.env.incoming.headers))
  })
  app.all('/', () => errorResponse(new PublicError('not_found', { message: 'Not found; MCP is served at /mcp.' })))
  app.onError((error, c) => {
    if (!(error instanceof PublicError) || error.status !== 403 || chooseFormat(c) !== 'text/html')
      return errorResponse(error, gateway.log)
    return renderPage(c, forbidden, 403)
  })
  return app
}

function chooseFormat(c: Context): Format {
  const supports = ['text/plain', 'application/json', 'text/html']
  return accepts(c, { header: 'Accept', supports, default: 'text/plain' }) as Format
}

function answer(c: Context, overview: Overview): Response | Promise<Response> {
  switch (chooseFormat(c)) {
    case 'text/html':
      return renderPage(c, gatewayPage(overview))
    case 'application/json':
      return c.json(programView(overview), 200, HEADERS)
    default:
      return c.text(`${overview.name}: an MCP gateway\nMCP endpoint: ${overview.endpoint}\n`, 200, HEADERS)
  }
}

function programView({ name, endpoint, access }: Overview): object {
  if (access.kind === 'login') {
    const { metadata, authorizationServers, scopes, needs } = access
    return { name, endpoint, login: { metadata, authorizationServers, scopes }, needs }
  }
  if (access.kind === 'policy') return { name, endpoint }
  const { servers, serverCount, tools, toolCount } = access
  return { name, endpoint, servers, serverCount, tools, toolCount }
}

const forbidden = {
  title: '403',
  home: './',
  body: html`<h1>This host name is not served here</h1><p class="soft">An administrator can add it to <code>allowedHosts</code>.</p>`,
  footer: html`An MCP gateway.`,
}
