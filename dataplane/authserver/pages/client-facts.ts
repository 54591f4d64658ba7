import { html } from 'hono/html'
import type { Markup } from '../../pages/page.ts'

/** What is said of a client that nobody has checked. `document`: the URL of its metadata document, where it has one. */
export const knownBy = (document: string | undefined): Markup =>
  document === undefined
    ? html`It registered itself under this name, which nobody has checked.`
    : html`It is known by its address at <b>${shownHost(document)}</b>.`

/** Where a client gets its answers. */
export function answeredAt(destination: Destination): Markup {
  switch (destination.kind) {
    case 'computer':
      return html`<b>a program on this computer</b><br><span class="small soft">${destination.host}</span>`
    case 'app':
      return html`<b>the app that opens <code>${destination.scheme}</code> links</b><br><span class="small soft">on this device; any app may have claimed them</span>`
    case 'site':
      return html`<b>${destination.host}</b>`
  }
}

/** What scopes of OpenID Connect mean; others are names that the gateway's operator has given. */
const MEANINGS: ReadonlyMap<string, string> = new Map([
  ['openid', 'know who you are'],
  ['profile', 'see your name'],
  ['email', 'see your e-mail address'],
  ['offline_access', 'stay logged in while you are away'],
])

/** What a client may do, or asks for. */
export function scopeList(scopes: readonly string[]): Markup {
  const named = scopes.filter((scope) => !MEANINGS.has(scope))
  const code = (scope: string) => html`<code>${scope}</code> `
  return html`<ul class="plain">
${scopes.map((scope) => (MEANINGS.has(scope) ? html`<li>${MEANINGS.get(scope)} <code class="soft">${scope}</code></li>` : ''))}
${named.length === 0 ? '' : html`<li>${named.map(code)}</li>`}
</ul>`
}

/** Where a redirect URI leads, in the terms of whoever is asked about it. */
export type Destination =
  | { readonly kind: 'site' | 'computer'; readonly host: string }
  | { readonly kind: 'app'; readonly scheme: string }

const LOOPBACK = new Set(['localhost', '127.0.0.1', '[::1]'])

/** `redirectUri`: a registered one, so an absolute URI. */
export function destinationOf(redirectUri: string): Destination {
  const { protocol, hostname, host } = new URL(redirectUri)
  if (protocol !== 'https:' && protocol !== 'http:') return { kind: 'app', scheme: protocol }
  return { kind: LOOPBACK.has(hostname) ? 'computer' : 'site', host }
}

/** The host of a URL as browsers understand it: names in other scripts stand in their ASCII form, which deceives nobody. */
export const shownHost = (url: string): string => new URL(url).host
