import { checkGateway } from '../../../dataplane/config/check/gateway.ts'
import type { GatewayConfig } from '../../../dataplane/config/gateway.ts'
import { ConfigError, type Finding } from '../../../dataplane/config/load.ts'
import { acceptsGateway } from '../../../dataplane/config/read/accepts-gateway.ts'
import { parseGateway } from '../../../dataplane/config/read/gateway-findings.ts'
import type { Problems } from './problems.ts'

/** From a pointer into a gateway's configuration to the pointer of the field that it was rendered from. */
export type Places = Readonly<Record<string, string>>

/** Finds everything that `portico serve gateway` would refuse in a configuration: its schema first, then its rules. */
export function gatewayFindings(config: GatewayConfig): readonly Finding[] {
  // The acceptor puts defaults in place, and what is rendered must not have them.
  return acceptsGateway(structuredClone(config)) ? checkGateway(config) : findingsOf(parseGateway, config)
}

/** Finds what a parser of the served file refuses in a configuration. */
export function findingsOf(parse: (text: string) => unknown, config: object): readonly Finding[] {
  try {
    parse(JSON.stringify(config))
    return []
  } catch (error) {
    if (error instanceof ConfigError) return error.findings
    throw error
  }
}

/** Notes findings at fields of the object itself. */
export function noteInvalid(findings: readonly Pick<Finding, 'pointer' | 'message'>[], problems: Problems): void {
  for (const { pointer, message } of findings) problems.add('Valid', 'ConfigInvalid', { pointer, joint: ' ', message })
}

/** A configuration that nothing is wrong with. */
const NOTHING: GatewayConfig = {
  name: 'part',
  namespace: 'part',
  role: 'gateway',
  incomingAuth: { type: 'anonymous' },
  backends: [],
}

/**
 * Finds what the schema of a gateway's configuration refuses in the part of it that one config object becomes. Findings
 * point at the object's own fields by `places`; what lies elsewhere is not the object's. Rules across fields are the
 * business of whoever renders the whole.
 */
export function partFindings(part: Partial<GatewayConfig>, places: Places): readonly Finding[] {
  const config = { ...NOTHING, ...part }
  if (acceptsGateway(structuredClone(config))) return []
  return findingsOf(parseGateway, config).flatMap(({ pointer, message }) => {
    const place = placeOf(pointer, places)
    return place === undefined ? [] : [{ pointer: place, message }]
  })
}

/** Translates a pointer by the longest of `places` that it lies in; undefined where it lies in none. */
export function placeOf(pointer: string, places: Places): string | undefined {
  const part = Object.keys(places)
    .filter((place) => pointer === place || pointer.startsWith(`${place}/`))
    .reduce((longest, place) => (place.length > longest.length ? place : longest), '')
  return part === '' ? undefined : places[part] + pointer.slice(part.length)
}
