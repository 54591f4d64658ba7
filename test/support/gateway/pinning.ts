import { definitionDigest, instructionsDigest, pageDigest } from '../../../crds/settings/definition-digest.ts'
import type { PinningConfig } from '../../../dataplane/config/gateway.ts'
import type { Shows } from '../servers/changing-server.ts'

type Pins = NonNullable<PinningConfig['pins']>

/** Pins of all that a server shows now. */
export function pinsOf(shows: Shows): Pins {
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
 * Health checks as often as a configuration may have them, so that a test needs not wait for polls. On a busy machine some
 * take longer than they may: the backend is none the worse for it, and a client finds no list before one was in time.
 */
export const OFTEN = {
  healthCheckInterval: '200ms',
  healthCheckTimeout: '190ms',
  unhealthyThreshold: 1_000_000,
  circuitBreaker: { enabled: false },
} as const
