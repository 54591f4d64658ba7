import { isIP } from 'node:net'
import type { MiddlewareHandler } from 'hono'
import { PublicError } from './errors.ts'

/** Host names in lower case, without ports; `*` stands for all. */
export type HostNames = ReadonlySet<string> | '*'

export interface HostGuardOptions {
  /** The accepted names besides those that are always safe, read on each request. */
  allowed(): HostNames
  /** `checked` (default): pages of other hosts are refused. `any`: for public resources. */
  readonly origins?: 'checked' | 'any'
}

/** Returns the accepted names: the hosts of `urls`, and the configured `names` (`*` among them stands for all). */
export function hostNames(urls: readonly (string | undefined)[], names: readonly string[] = []): HostNames {
  if (names.includes('*')) return '*'
  return new Set([
    ...urls.flatMap((url) => (url === undefined ? [] : [new URL(url).hostname])),
    ...names.map((name) => hostOf(name) ?? name.toLowerCase()),
  ])
}

/**
 * Refuses requests of web pages through a host name of their own (DNS rebinding), and those of another Origin (MCP,
 * Streamable HTTP: security). Always accepted: IP addresses and `localhost`, which no page controls.
 */
export function guardHosts({ allowed, origins = 'checked' }: HostGuardOptions): MiddlewareHandler {
  return async function hostGuard(c, next) {
    checkHost(allowed(), c.req.header('host'), origins === 'checked' ? c.req.header('origin') : undefined)
    await next()
  }
}

/** Applies the guard's rule to one request; throws `forbidden_host`. An absent `origin` is not checked. */
export function checkHost(names: HostNames, hostHeader: string | undefined, origin: string | undefined): void {
  if (names === '*') return
  const host = hostOf(hostHeader ?? '')
  if (host === undefined || !(isIP(bare(host)) !== 0 || isKnownName(host, names)))
    throw new PublicError('forbidden_host')
  if (origin !== undefined && !originAllowed(origin, host, names)) throw new PublicError('forbidden_host')
}

function originAllowed(origin: string, host: string, names: ReadonlySet<string>): boolean {
  const from = URL.parse(origin)?.hostname
  return from !== undefined && from !== '' && (from === host || isKnownName(from, names))
}

const isKnownName = (host: string, names: ReadonlySet<string>): boolean =>
  host === 'localhost' || host.endsWith('.localhost') || LOOPBACK.has(host) || names.has(host)

/** The hosts of pages served from this machine. */
const LOOPBACK: ReadonlySet<string> = new Set(['127.0.0.1', '[::1]'])

/** The canonical form, which nearly every client sends: parsing it as a URL would cost more than the rest. */
const CANONICAL = /^([a-z][a-z0-9-]*(?:\.[a-z][a-z0-9-]*)*|\d{1,3}(?:\.\d{1,3}){3})(?::(\d{1,5}))?$/

/** Returns the canonical name in a Host header or in `HOST[:PORT]`; undefined if there is none. */
export function hostOf(header: string): string | undefined {
  const [, name, port = '0'] = CANONICAL.exec(header) ?? []
  if (name !== undefined && Number(port) <= LARGEST_PORT && isCanonical(name)) return name
  if (!/^[\w.[\]:-]+$/.test(header)) return undefined
  const text = isIP(header) === 6 ? `[${header}]` : header
  return URL.parse(`http://${text}`)?.hostname.replace(/\.$/, '') || undefined
}

const LARGEST_PORT = 65_535

/** Tells whether a name is canonical: an address has no leading zeros, `xn--` may encode anything. */
const isCanonical = (name: string): boolean => (name.charCodeAt(0) < 58 ? isIP(name) === 4 : !name.includes('xn--'))

const bare = (host: string): string => host.replace(/^\[|\]$/g, '')
