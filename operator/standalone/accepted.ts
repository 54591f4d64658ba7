import { type CoreObject, type Manifest, type ManifestFinding, objectKey } from '../cluster/files/index.ts'

/** What a run goes by: the last good version of each object. */
export interface Accepted {
  readonly manifests: readonly Manifest[]
  readonly secrets: readonly CoreObject[]
  readonly configMaps: readonly CoreObject[]
}

export const nothingAccepted: Accepted = { manifests: [], secrets: [], configMaps: [] }

/** A Secret or ConfigMap among its kind. */
export const coreKey = ({ namespace, name }: CoreObject) => `${namespace}/${name}`

/** The new objects, and of the old ones those that a broken file may only seem to have lost. */
function keep<T extends { readonly file: string }>(
  before: readonly T[],
  now: readonly T[],
  keyOf: (item: T) => string,
  isBroken: (file: string) => boolean,
): readonly T[] {
  const present = new Set(now.map(keyOf))
  return [...now, ...before.filter((item) => !present.has(keyOf(item)) && isBroken(item.file))]
}

/**
 * Takes over what was read, as an API server would take it: an invalid object is refused and the version before it
 * stays; an object is gone only when its file, free of errors, doesn't hold it any more.
 */
export function accept(before: Accepted, now: Accepted, findings: readonly ManifestFinding[]): Accepted {
  const broken = new Set(findings.filter(({ severity }) => severity === 'error').map(({ file }) => file))
  const missing = findings.filter(({ reason }) => reason === 'FileMissing').map(({ file }) => `${file}/`)
  const isBroken = (file: string) => broken.has(file) || missing.some((folder) => file.startsWith(folder))
  return {
    manifests: keep(before.manifests, now.manifests, ({ id }) => objectKey(id), isBroken),
    secrets: keep(before.secrets, now.secrets, coreKey, isBroken),
    configMaps: keep(before.configMaps, now.configMaps, coreKey, isBroken),
  }
}
