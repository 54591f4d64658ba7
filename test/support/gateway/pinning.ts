import { definitionDigest, instructionsDigest, pageDigest } from '../../../crds/settings/definition-digest.ts'
import type { PinningConfig } from '../../../dataplane/config/gateway.ts'
import type { Shows } from '../servers/changing-server.ts'

type Pins = NonNullable<PinningConfig['pins']>

/** Returns pins of everything that a server shows now. */
export function buildPins(shows: Shows): Pins {
  const byKey = (texts: readonly string[], key: string) =>
    Object.fromEntries(texts.map((text) => [JSON.parse(text)[key] as string, [definitionDigest(text) as string]]))
  return {
    tools: byKey(shows.tools, 'name'),
    prompts: byKey(shows.prompts, 'name'),
    resources: byKey(shows.resources, 'uri'),
    resourceTemplates: byKey(shows.resourceTemplates, 'uriTemplate'),
    pages: Object.fromEntries(Object.entries(shows.pages).map(([uri, text]) => [uri, [pageDigest(text) as string]])),
    ...(shows.instructions === undefined ? {} : { instructions: [instructionsDigest(shows.instructions)] }),
  }
}

/**
 * Settings for health checks as often as a configuration may have them, so that a test does not wait for polls. On a
 * busy machine some checks time out, which does not mark the backend unhealthy; a client finds no list until one check
 * has succeeded.
 */
export const OFTEN = {
  healthCheckInterval: '200ms',
  healthCheckTimeout: '190ms',
  unhealthyThreshold: 1_000_000,
  circuitBreaker: { enabled: false },
} as const
