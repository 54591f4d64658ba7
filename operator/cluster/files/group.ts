import { DEFAULT_GROUP } from '../../../crds/index.ts'

export interface OwnGroup {
  readonly name: string
  /** The caller chose the group. Objects of our kinds in other groups belong to another installation. */
  readonly chosen: boolean
  /** The message for an object of another group. */
  readonly why: string
}

const GROUP = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+$/

/** Tells whether a text can be an API group of custom resources: a DNS name with a dot. */
export const isGroup = (text: string): boolean => text.length <= 253 && GROUP.test(text)

export const parseGroup = (apiVersion: string): string => {
  const slash = apiVersion.indexOf('/')
  return slash < 0 ? '' : apiVersion.slice(0, slash)
}

export const parseVersion = (apiVersion: string): string => apiVersion.slice(apiVersion.indexOf('/') + 1)

/**
 * Returns the API group of a set of manifests: the chosen one, or the most frequent one (the first of several); objects
 * of others get a finding.
 */
export function agreeOnGroup(
  objects: readonly Record<string, unknown>[],
  isOurKind: (kind: string) => boolean,
  chosen?: string,
): OwnGroup {
  if (chosen !== undefined) return { name: chosen, chosen: true, why: '' }
  const counts = new Map<string, number>()
  for (const { apiVersion, kind } of objects) {
    if (typeof apiVersion !== 'string' || typeof kind !== 'string' || !isOurKind(kind)) continue
    const group = parseGroup(apiVersion)
    if (isGroup(group)) counts.set(group, (counts.get(group) ?? 0) + 1)
  }
  const [most] = [...counts].sort((left, right) => right[1] - left[1])
  const name = most?.[0] ?? DEFAULT_GROUP
  const why = `these manifests are of several API groups, mostly ${name}; choose one with --api-group`
  return { name, chosen: false, why }
}
