import { html } from 'hono/html'
import type { Markup, Page } from '../../pages/page.ts'
import { setupList } from '../../pages/setup-list.ts'
import type { HealthState } from '../backends/health/health.ts'
import { gatewaySetups } from './gateway-setups.ts'
import type { LoginAccess, OpenAccess, Overview, ServerSummary } from './overview.ts'
import type { ToolSummary } from './tool-summaries.ts'

const FOOTER = html`An MCP gateway. What is shown here is what every caller may see; programs get it as JSON, by their <code>Accept</code> header.`

/** The gateway for people: where it is, how a client connects and, where callers are anonymous, what is behind it. */
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
${access.kind === 'login' ? login(access) : ''}
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
    : html`<ul class="grid">${tools.map(toolCard)}</ul>`
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
