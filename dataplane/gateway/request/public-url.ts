import type { IncomingHttpHeaders } from 'node:http'
import { ENDPOINT_PREFIX } from '../../../crds/settings/gateway/defaults.ts'
import { spelledAs } from '../../config/check/url.ts'
import type { GatewayConfig } from '../../config/gateway.ts'
import { resourceMetadataUrl } from '../../identity/index.ts'
import { type HostNames, hostOf } from '../../server/hosts.ts'

export const ENDPOINT = '/mcp'
const METADATA = '/.well-known/oauth-protected-resource'

/** The URLs of the endpoint as clients see them. */
interface PublicUrl {
  /** The `resource` of RFC 9728. */
  readonly resource: string
  /** The URL of its metadata, for challenges. */
  readonly metadataUrl: string
}

/** Returns the URLs that the client of a request with these headers can use. */
export type PublicUrlOf = (headers: IncomingHttpHeaders) => PublicUrl

type Settings = Pick<GatewayConfig, 'resourceUrl' | 'endpointPrefix' | 'trustProxyHeaders'> &
  Partial<Pick<GatewayConfig, 'incomingAuth'>>

const PREFIX = new RegExp(ENDPOINT_PREFIX)

/**
 * Returns the function that gives the public URLs. They come from the configuration; under `trustProxyHeaders` from
 * X-Forwarded-Host, -Proto, -Port and -Prefix, if the host is one of `names`. These headers determine nothing else: not
 * the caller, the audience of tokens, an issuer, or the hosts that are served.
 *
 * @param listenerUrl `http://host:port`, used if the configuration has no `resourceUrl`; on loopback with the host by
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

/** Builds the URLs. With a prefix the metadata is below it, too, because the proxy in front may route nothing else. */
function publicUrl(resource: string, prefix: string): PublicUrl {
  const { origin, pathname } = new URL(resource)
  if (prefix === '' || !pathname.startsWith(`${prefix}/`))
    return { resource, metadataUrl: resourceMetadataUrl(resource) }
  return { resource, metadataUrl: `${origin}${prefix}${METADATA}${pathname.slice(prefix.length)}` }
}

/** Returns the value of the nearest proxy, which is the last one because proxies append to a header. */
function lastValue(header: string | string[] | undefined): string {
  const text = Array.isArray(header) ? header.join(',') : (header ?? '')
  return text.slice(text.lastIndexOf(',') + 1).trim()
}

function forwardedOrigin(headers: IncomingHttpHeaders, usual: string, names: HostNames): string | undefined {
  const forwarded = lastValue(headers['x-forwarded-host'])
  const host = hostOf(forwarded)
  // `*` accepts all hosts and names none: a host that a client may choose appears in no answer.
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

/** Removes a prefix from a request's target, as a proxy in front that strips it would have done. */
export function withoutPrefix(target: string, prefix: string | undefined): string {
  return prefix !== undefined && target.startsWith(`${prefix}/`) ? target.slice(prefix.length) : target
}

/**
 * Returns the paths that serve the metadata of a resource: the bare well-known path, the one with the resource's own
 * path (RFC 9728 section 3.1), and the one of the endpoint alone, for a proxy in front that strips a prefix.
 */
export function metadataPaths(resource: string, { endpointPrefix, trustProxyHeaders }: Settings): string[] {
  const { pathname } = new URL(resource)
  const stripped = endpointPrefix !== undefined || trustProxyHeaders === true ? [`${METADATA}${ENDPOINT}`] : []
  return [METADATA, ...(pathname === '/' ? [] : [`${METADATA}${pathname}`]), ...stripped]
}
