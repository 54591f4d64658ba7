import type { KindDeclaration, ObjectOf } from '../../../crds/define.ts'
import { unsupportedFields } from '../../../crds/index.ts'
import { copyJson } from '../../../crds/settings/json.ts'
import { checkGateway } from '../../../dataplane/config/check/gateway.ts'
import type { GatewayConfig } from '../../../dataplane/config/gateway.ts'
import { ConfigError, type Finding } from '../../../dataplane/config/load.ts'
import { acceptsGateway } from '../../../dataplane/config/read/accepts-gateway.ts'
import { parseGateway } from '../../../dataplane/config/read/gateway-findings.ts'
import { byText } from '../../model/index.ts'
import type { Problems } from './plan.ts'

/** Maps a pointer into a gateway's configuration to the pointer of the field from which it was rendered. */
export type Places = Readonly<Record<string, string>>

export function validateGateway(config: GatewayConfig): readonly Finding[] {
  // A copy, because the validator fills in defaults, which the rendered file must not have.
  return acceptsGateway(copyJson(config)) ? checkGateway(config) : collectFindings(parseGateway, config)
}

/** Finds what a parser of the served file refuses in a configuration. */
export function collectFindings(parse: (text: string) => unknown, config: object): readonly Finding[] {
  try {
    parse(JSON.stringify(config))
    return []
  } catch (error) {
    if (error instanceof ConfigError) return error.findings
    throw error
  }
}

/** Records findings at fields of the object itself. */
export function noteInvalid(findings: readonly Pick<Finding, 'pointer' | 'message'>[], problems: Problems): void {
  for (const { pointer, message } of findings) problems.refuse(pointer, message)
}

/** A valid configuration without content. */
const NOTHING: GatewayConfig = {
  name: 'part',
  namespace: 'part',
  role: 'gateway',
  incomingAuth: { type: 'anonymous' },
  backends: [],
}

/**
 * Finds what the schema of a gateway's configuration refuses in the part that one config object becomes. `places` maps
 * findings to its fields; others are dropped.
 */
export function validatePart(part: Partial<GatewayConfig>, places: Places): readonly Finding[] {
  const config = { ...NOTHING, ...part }
  if (acceptsGateway(copyJson(config))) return []
  return collectFindings(parseGateway, config).flatMap(({ pointer, message }) => {
    const place = translatePointer(pointer, places)
    return place === undefined ? [] : [{ pointer: place, message }]
  })
}

export function translatePointer(pointer: string, places: Places): string | undefined {
  const part = Object.keys(places)
    .filter((place) => pointer === place || pointer.startsWith(`${place}/`))
    .reduce((longest, place) => (place.length > longest.length ? place : longest), '')
  return part === '' ? undefined : places[part] + pointer.slice(part.length)
}

/** Records every field that is set and refused: an ignored setting may be the one that restricts access. */
export function checkSupported<K extends KindDeclaration>(kind: K, object: ObjectOf<K>, problems: Problems): void {
  const found = unsupportedFields(kind, object).sort((a, b) => byText(a.pointer, b.pointer))
  for (const { pointer, reason } of found) problems.add('Valid', 'NotSupported', { pointer, message: reason })
}
