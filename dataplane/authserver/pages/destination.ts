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
