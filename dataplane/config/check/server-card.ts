import type { GatewayConfig } from '../gateway.ts'
import type { Finding } from '../load.ts'
import { isLoopback } from './url.ts'

type Settings = Pick<GatewayConfig, 'serverCard' | 'resourceUrl' | 'endpointPrefix'>

/**
 * Returns the public URL that a card names, https or on loopback; undefined if none is known. Nothing of it comes from
 * a request.
 */
export function cardEndpoint({ serverCard, resourceUrl }: Omit<Settings, 'endpointPrefix'>): string | undefined {
  const url = URL.parse(serverCard?.url ?? resourceUrl ?? '')
  if (url === null || url.username !== '' || url.password !== '') return undefined
  if (url.protocol !== 'https:' && !isLoopback(url)) return undefined
  return url.origin + url.pathname.replace(/\/$/, '')
}

export function serverCardFindings(config: Settings): readonly Finding[] {
  const { serverCard, endpointPrefix } = config
  if (serverCard === undefined) return []
  return [
    ...(cardEndpoint(config) === undefined
      ? [
          {
            pointer: '/serverCard',
            message: 'needs the public URL of the endpoint, https or on loopback: resourceUrl, or url',
          },
        ]
      : []),
    ...(serverCard.catalog === true && endpointPrefix !== undefined
      ? [
          {
            pointer: '/serverCard/catalog',
            message: 'must be left out with an endpointPrefix: a host has one catalog',
          },
        ]
      : []),
  ]
}
