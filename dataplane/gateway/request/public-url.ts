import type { IncomingHttpHeaders } from 'node:http'
import { ENDPOINT_PREFIX } from '../../../crds/settings/gateway/prefix-pattern.ts'
import { spelledAs } from '../../config/check/url.ts'
import type { GatewayConfig } from '../../config/gateway.ts'
import { resourceMetadataUrl } from '../../identity/index.ts'
import { type HostNames, hostOf } from '../../server/hosts.ts'

/** Path of the MCP endpoint. */
export const ENDPOINT = '/mcp'
const METADATA = '/.well-known/oauth-protected-resource'

/** Where clients find the endpoint, as they see it. */
interface PublicUrl {
  /** URL of the MCP endpoint, `resource` of RFC 9728. */
  readonly resource: string
  /** Where its metadata is, for challenges. */
  readonly metadataUrl: string
}

/** Gives the URLs that the client of a request with these headers can use. */
export type PublicUrlOf = (headers: IncomingHttpHeaders) => PublicUrl

type Settings = Pick<GatewayConfig, 'resourceUrl' | 'endpointPrefix' | 'trustProxyHeaders'> &
  Partial<Pick<GatewayConfig, 'incomingAuth'>>

const PREFIX = new RegExp(ENDPOINT_PREFIX)

/**
 * Makes the function that gives the public URLs. They come from the configuration; under `trustProxyHeaders` from
 * X-Forwarded-Host, -Proto, -Port and -Prefix, where the host is one of `names`. Nothing else is ever taken from these
 * headers: not who calls, not the audience of tokens, not an issuer, not the hosts that are answered to.
 *
 * @param listenerUrl `http://host:port`, used where the configuration has no `resourceUrl`; on loopback with the host by
 *   which the audience names the endpoint
 */
export function publicUrls(settings: Settings, listenerUrl: string, names: HostNames): PublicUrlOf {
  const { endpointPrefix: prefix = '', trustProxyHeaders = false } = settings
  const { audience } = settings.incomingAuth?.oidc ?? {}
  const resource = settings.resourceUrl ?? spelledAs(`${listenerUrl}${prefix}${ENDPOINT}`, [audience])
  const configured = publicUrl(resource, prefix)
  if (!trustProxyHeaders) return () => configured
  return (headers) => {
    const origin = forwardedOrigin(headers, new URL(resource).protocol, names)
    if (origin === undefined) return configured
    const before = prefix || forwardedPrefix(headers)
    return publicUrl(`${origin}${before}${ENDPOINT}`, before)
  }
}

/** Below a prefix the metadata is there, too: the proxy in front may pass on nothing else. */
function publicUrl(resource: string, prefix: string): PublicUrl {
  const { origin, pathname } = new URL(resource)
  if (prefix === '' || !pathname.startsWith(`${prefix}/`))
    return { resource, metadataUrl: resourceMetadataUrl(resource) }
  return { resource, metadataUrl: `${origin}${prefix}${METADATA}${pathname.slice(prefix.length)}` }
}

/**
 * The value that the nearest proxy has set: proxies that add to a header add at its end, so that what a client made up
 * stands before it.
 */
function lastValue(header: string | string[] | undefined): string {
  const text = Array.isArray(header) ? header.join(',') : (header ?? '')
  return text.slice(text.lastIndexOf(',') + 1).trim()
}

function forwardedOrigin(headers: IncomingHttpHeaders, usual: string, names: HostNames): string | undefined {
  const forwarded = lastValue(headers['x-forwarded-host'])
  const host = hostOf(forwarded)
  // `*` answers to all hosts and names none: a name that a client may choose appears in no answer.
  if (host === undefined || names === '*' || !names.has(host)) return undefined
  const proto = lastValue(headers['x-forwarded-proto']).toLowerCase()
  const protocol = proto === 'http' || proto === 'https' ? `${proto}:` : usual
  const ownPort = URL.parse(`${protocol}//${forwarded}`)?.port ?? ''
  const port = ownPort || (/:\d+$/.test(forwarded) ? '' : lastValue(headers['x-forwarded-port']))
  const isPort = /^\d{1,5}$/.test(port) && Number(port) >= 1 && Number(port) <= 65_535
  return new URL(`${protocol}//${host}${isPort ? `:${port}` : ''}`).origin
}

function forwardedPrefix(headers: IncomingHttpHeaders): string {
  const prefix = lastValue(headers['x-forwarded-prefix']).replace(/\/$/, '')
  return prefix.length <= 2048 && PREFIX.test(prefix) ? prefix : ''
}

/** A request's target below a prefix, without it, as a proxy in front that strips it would have handed it on. */
export function withoutPrefix(target: string, prefix: string | undefined): string {
  return prefix !== undefined && target.startsWith(`${prefix}/`) ? target.slice(prefix.length) : target
}

/**
 * The paths that answer for the metadata of a resource: the bare well-known one, the one with the resource's own path
 * (RFC 9728 section 3.1), and the one of the endpoint alone, where a proxy in front has stripped a prefix.
 */
export function metadataPaths(resource: string, { endpointPrefix, trustProxyHeaders }: Settings): string[] {
  const { pathname } = new URL(resource)
  const stripped = endpointPrefix !== undefined || trustProxyHeaders === true ? [`${METADATA}${ENDPOINT}`] : []
  return [METADATA, ...(pathname === '/' ? [] : [`${METADATA}${pathname}`]), ...stripped]
}
