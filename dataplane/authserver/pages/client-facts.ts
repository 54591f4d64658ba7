import { html } from 'hono/html'
import type { Markup } from '../../pages/page.ts'

/** Describes an unverified client. `document`: the URL of its metadata document, if it has one. */
export const knownBy = (document: string | undefined): Markup =>
  document === undefined
    ? html`It registered itself under this name, which nobody has checked.`
    : html`It is known by its address at <b>${shownHost(document)}</b>.`

/** Describes the destination of a client's responses. */
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

/** The meanings of OpenID Connect scopes. The operator of the gateway names the others. */
const MEANINGS: ReadonlyMap<string, string> = new Map([
  ['openid', 'know who you are'],
  ['profile', 'see your name'],
  ['email', 'see your e-mail address'],
  ['offline_access', 'stay logged in while you are away'],
])

/** Lists the scopes that a client has or asks for. */
export function scopeList(scopes: readonly string[]): Markup {
  const named = scopes.filter((scope) => !MEANINGS.has(scope))
  const code = (scope: string) => html`<code>${scope}</code> `
  return html`<ul class="plain">
${scopes.map((scope) => (MEANINGS.has(scope) ? html`<li>${MEANINGS.get(scope)} <code class="soft">${scope}</code></li>` : ''))}
${named.length === 0 ? '' : html`<li>${named.map(code)}</li>`}
</ul>`
}

/** The destination of a redirect URI, in terms that users understand. */
export type Destination =
  | { readonly kind: 'site' | 'computer'; readonly host: string }
  | { readonly kind: 'app'; readonly scheme: string }

const LOOPBACK = new Set(['localhost', '127.0.0.1', '[::1]'])

/** Returns the destination of a registered redirect URI, which is an absolute URI. */
export function findDestination(redirectUri: string): Destination {
  const { protocol, hostname, host } = new URL(redirectUri)
  if (protocol !== 'https:' && protocol !== 'http:') return { kind: 'app', scheme: protocol }
  return { kind: LOOPBACK.has(hostname) ? 'computer' : 'site', host }
}

/**
 * Returns the host of a URL as browsers read it. International names become ASCII, so that look-alikes deceive nobody.
 */
export const shownHost = (url: string): string => new URL(url).host
