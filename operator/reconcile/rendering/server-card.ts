import type { ServerCard } from '../../../crds/settings/gateway/server-card.ts'
import { cardEndpoint } from '../../../dataplane/config/check/server-card.ts'
import type { GatewayConfig } from '../../../dataplane/config/gateway.ts'
import type { Problems } from '../outcome/problems.ts'

/** Builds the block `serverCard`; empty without one. A card without a public URL is a problem. */
export function buildServerCard(
  serverCard: ServerCard | undefined,
  resourceUrl: string | undefined,
  problems: Problems,
): Pick<GatewayConfig, 'serverCard'> {
  if (serverCard === undefined) return {}
  if (cardEndpoint({ serverCard, resourceUrl }) === undefined)
    problems.add('Valid', 'ServerCardNeedsURL', {
      pointer: '/spec/serverCard',
      joint: ' ',
      message:
        'needs the public URL of the endpoint, https or on loopback: oidcConfigRef.resourceUrl, or serverCard.url',
    })
  return { serverCard }
}
