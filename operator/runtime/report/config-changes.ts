import { kinds } from '../../../crds/index.ts'
import { gauge, type Reading } from '../../../dataplane/telemetry/metrics/family.ts'
import type { KubernetesObject } from '../../model/view.ts'

const changed = gauge(
  'portico.operator.config.changed.timestamp',
  's',
  'When a config of this kind has changed (Unix time): the one that changed last, and the one that stands the longest.',
)

const configKinds: ReadonlySet<string> = new Set(
  Object.values(kinds)
    .filter(({ role }) => role === 'config')
    .map(({ kind }) => kind),
)

/**
 * When the hash of a config became what it is, in milliseconds of Unix time: since it was made, where its status does not
 * tell. Undefined while it has none.
 */
function changedAt({ metadata, status }: KubernetesObject): number | undefined {
  const { configHash, configHashTime } = (status ?? {}) as Readonly<Record<string, string | undefined>>
  const at = Date.parse(configHashTime ?? metadata.creationTimestamp ?? '')
  return configHash === undefined || Number.isNaN(at) ? undefined : at
}

/** When the hashes of configs became what they are: by kind the newest and the oldest, whatever the number of objects. */
export function configChanges(objects: readonly KubernetesObject[]): readonly Reading[] {
  const found = new Map<string, { newest: number; oldest: number }>()
  for (const object of objects) {
    const at = configKinds.has(object.kind) ? changedAt(object) : undefined
    if (at === undefined) continue
    const { newest, oldest } = found.get(object.kind) ?? { newest: at, oldest: at }
    found.set(object.kind, { newest: Math.max(newest, at), oldest: Math.min(oldest, at) })
  }
  return [...found].sort().flatMap(([kind, { newest, oldest }]) => [
    { metric: changed, labels: { kind, config: 'newest' }, value: newest / 1000 },
    { metric: changed, labels: { kind, config: 'oldest' }, value: oldest / 1000 },
  ])
}
