import { parseDuration } from '../../../crds/settings/duration.ts'
import { gateDefaults, gateStale } from '../../../crds/settings/gateway/defaults.ts'
import type { CatalogRegistryConfig, GatewayConfig } from '../gateway.ts'
import type { Finding } from '../load.ts'
import { duplicates } from './duplicates.ts'
import { isClusterOrPrivate, urlFindings } from './url.ts'

export function catalogGateFindings({ role, backends, catalogGate }: GatewayConfig, at: string): readonly Finding[] {
  if (catalogGate === undefined) return []
  const { mode = gateDefaults.mode, registries = [], maxStale = gateDefaults.maxStale, members = [] } = catalogGate
  const names = new Set(backends.map(({ name }) => name))
  const stale = parseDuration(maxStale)
  const isInRange = stale >= parseDuration(gateStale.shortest) && stale <= parseDuration(gateStale.longest)
  return [
    ...(role === 'proxy' ? [{ pointer: at, message: 'must be left out in a proxy, which has one backend' }] : []),
    ...(mode !== 'disabled' && registries.length === 0
      ? [{ pointer: `${at}/registries`, message: 'must be set unless mode is disabled' }]
      : []),
    ...(isInRange
      ? []
      : [{ pointer: `${at}/maxStale`, message: `must be from ${gateStale.shortest} to ${gateStale.longest}` }]),
    ...duplicates(registries, ({ name }) => name, `${at}/registries`, '/name'),
    ...registries.flatMap((registry, index) => registryFindings(registry, `${at}/registries/${index}/url`)),
    ...duplicates(members, ({ backend }) => backend, `${at}/members`, '/backend'),
    ...members.flatMap(({ backend }, index) =>
      names.has(backend)
        ? []
        : [{ pointer: `${at}/members/${index}/backend`, message: 'is not the name of a backend' }],
    ),
  ]
}

function registryFindings({ url: text }: CatalogRegistryConfig, pointer: string): readonly Finding[] {
  const findings = urlFindings(text, pointer)
  const url = URL.parse(text)
  if (url === null || findings.length > 0) return findings
  if (url.search !== '') return [{ pointer, message: 'must have no query' }]
  // Whoever can change the answer on its way decides what is approved.
  return url.protocol === 'https:' || isClusterOrPrivate(url)
    ? []
    : [{ pointer, message: 'must be https, except in the cluster and at private addresses' }]
}
