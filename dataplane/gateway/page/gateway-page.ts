import type { HttpBindings } from '@hono/node-server'
import { type Context, Hono } from 'hono'
import { accepts } from 'hono/accepts'
import { html } from 'hono/html'
import { quoted, type Setup, setupList, setupsFor } from '../../pages/client-setup.ts'
import { type Markup, type Page, renderPage } from '../../pages/page.ts'
import { errorResponse, PublicError } from '../../server/errors.ts'
import type { NeedsOfTools } from '../access/call-needs.ts'
import type { HealthState } from '../backends/health/health.ts'
import type { Gateway } from '../core/gateway.ts'
import { MODERN } from '../mcp/eras.ts'
import { checkOrigin } from '../request/cross-origin.ts'
import {
  buildOverview,
  type LoginAccess,
  type OpenAccess,
  type Overview,
  type ServerSummary,
  type ToolSummary,
} from './overview.ts'

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

const FOOTER = html`An MCP gateway. What is shown here is what every caller may see; programs get it as JSON, by their <code>Accept</code> header.`

/**
 * Renders the gateway's page for people: its address, how to connect a client and, if callers are anonymous, its tools.
 */
export function gatewayPage(overview: Overview): Page {
  const { name, endpoint, access } = overview
  return {
    title: name,
    home: './',
    place: name,
    footer: FOOTER,
    body: html`
<h1>MCP endpoint</h1>
<pre role="group" tabindex="0" aria-label="Address of the MCP endpoint">${endpoint}</pre>
<p class="soft">This is an address for MCP clients, not for browsers.</p>
${access.kind === 'login' ? html`${login(access)}${needsSection(access.needs)}` : ''}
<h2>Connect a client</h2>
${setupList(gatewaySetups(overview))}
${access.kind === 'open' ? contents(access) : ''}`,
  }
}

function login({ metadata, authorizationServers, scopes }: LoginAccess): Markup {
  return html`<h2>Log in</h2>
<p>Callers need an access token. A client that follows MCP’s authorization gets one by itself: it opens a browser at the
first connection. Only callers with a token see servers and tools.</p>
<table><tbody>
${authorizationServers.map((url) => html`<tr><th scope="row">Log in at</th><td class="wrap">${url}</td></tr>`)}
${scopes.length === 0 ? '' : html`<tr><th scope="row">Scopes</th><td class="wrap">${scopes.join(' ')}</td></tr>`}
<tr><th scope="row">Metadata</th><td class="wrap"><a href="${metadata}">${metadata}</a></td></tr>
</tbody></table>`
}

/** Explains what some tools need in addition to a token, why, and where users get it. */
function needsSection({ scopes, accounts, keys, linked }: NeedsOfTools): Markup | string {
  const isOwn = keys.length + accounts.length > 0
  if (scopes.length === 0 && !isOwn) return ''
  return html`<h2>What some tools need besides</h2>
<p>A call that lacks something is refused, and the answer says what it lacks. ${scopes.length === 0 ? '' : SCOPES_LACK}${isOwn ? OWN_LACKS : ''}</p>
<table><tbody>
${scopes.map(
  ({ rule, scopes }) =>
    html`<tr><th scope="row">Scopes</th><td class="wrap">${scopes.map((scope) => html`<code>${scope}</code> `)}(rule ${rule})</td></tr>`,
)}
${keys.map(
  ({ title, link, helpUrl }) =>
    html`<tr><th scope="row">Key</th><td class="wrap"><bdi>${title}</bdi>: <a href="${link}" aria-label="enter yours for ${title}">enter yours</a>${
      helpUrl === undefined
        ? ''
        : html`, <a href="${helpUrl}" aria-label="how to get one for ${title}">how to get one</a>`
    }</td></tr>`,
)}
${accounts.map((host) => html`<tr><th scope="row">Account</th><td class="wrap">yours at ${host}</td></tr>`)}
${isOwn && linked !== undefined ? html`<tr><th scope="row">Linked</th><td class="wrap"><a href="${linked}">what is linked to you</a></td></tr>` : ''}
</tbody></table>`
}

const SCOPES_LACK = html`For scopes the client has you log in again. `
const OWN_LACKS = html`A key or an account of your own is linked once, by the link in the answer; a key can be entered here before.`

function contents({ servers, serverCount, tools, toolCount }: OpenAccess): Markup {
  return html`<h2>Servers</h2>
${
  servers.length === 0
    ? html`<div class="empty">No server is behind this gateway yet.</div>`
    : html`<table><thead><tr><th scope="col">Server</th><th scope="col">Health</th><th scope="col">Tools</th></tr></thead><tbody>
${servers.map(serverRow)}
</tbody></table>`
}
${more(serverCount - servers.length)}
<h2>Tools</h2>
${
  tools.length === 0
    ? html`<div class="empty">There are no tools to show at the moment.</div>`
    : html`<ul class="cards">${tools.map(toolCard)}</ul>`
}
${more(toolCount - tools.length)}`
}

const more = (count: number): Markup | string =>
  count > 0 ? html`<p class="small soft">and ${count.toLocaleString('en')} more</p>` : ''

const LOOK: Readonly<Record<HealthState, string>> = {
  healthy: 'tag',
  degraded: 'tag warn',
  unhealthy: 'tag warn',
  unauthenticated: 'tag warn',
  unknown: 'tag quiet',
}

const serverRow = ({ name, health, tools }: ServerSummary): Markup =>
  html`<tr><td>${name}</td><td><span class="${LOOK[health]}">${health}</span></td><td>${tools}</td></tr>`

const toolCard = ({ name, description }: ToolSummary): Markup =>
  html`<li class="card"><b class="name">${name}</b><span class="about" dir="auto">${description}</span></li>`

/** Returns the commands and settings that connect a client to the gateway. */
export function gatewaySetups({ name, endpoint, access }: Overview): readonly Setup[] {
  const needsToken = access.kind === 'login'
  const known = setupsFor(name, { type: 'http', url: endpoint })
  return [
    // The connectors of Claude Desktop are called from its maker's servers, which reach only https addresses.
    ...known.filter(({ client }) => client !== 'Claude Desktop' || endpoint.startsWith('https:')),
    {
      client: 'MCP Inspector',
      hint: 'Run this in a terminal: it lists the tools. Without --cli and what follows the address it opens in a browser.',
      text: `npx @modelcontextprotocol/inspector --cli ${quoted(endpoint)} --transport http --method tools/list${
        needsToken ? ' --header "Authorization: Bearer $TOKEN"' : ''
      }`,
    },
    { client: 'curl', hint: 'Run this in a terminal: it lists the tools.', text: curlCommand(endpoint, needsToken) },
    {
      client: 'TypeScript',
      hint: 'With the package @modelcontextprotocol/client.',
      text: program(endpoint, needsToken),
    },
  ]
}

function curlCommand(endpoint: string, needsToken: boolean): string {
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': MODERN,
    'io.modelcontextprotocol/clientCapabilities': {},
  }
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: { _meta } })
  return [
    `curl -s ${quoted(endpoint)}`,
    ...(needsToken ? ['-H "Authorization: Bearer $TOKEN"'] : []),
    "-H 'Content-Type: application/json'",
    "-H 'Accept: application/json, text/event-stream'",
    `-H 'MCP-Protocol-Version: ${MODERN}'`,
    "-H 'Mcp-Method: tools/list'",
    `-d '${body}'`,
  ].join(' \\\n  ')
}

function program(endpoint: string, needsToken: boolean): string {
  const options = needsToken
    ? `, {\n  requestInit: { headers: { Authorization: 'Bearer ' + process.env.TOKEN } },\n}`
    : ''
  return `import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'

const client = new Client({ name: 'my-program', version: '1.0.0' })
const endpoint = new URL(${JSON.stringify(endpoint)})
await client.connect(new StreamableHTTPClientTransport(endpoint${options}))
console.log(await client.listTools())
await client.close()`
}
