import { applyDefaults, findKind, unsupportedFields, validateObject } from '../../../crds/index.ts'
import { byText } from '../../model/index.ts'
import type { ClusterView, KubernetesObject, SecretPresence } from '../../model/view.ts'
import { clusterAddress } from '../../reconcile/index.ts'
import type { ReconcileContext } from '../../reconcile/outcome/plan.ts'
import { formatObjectKey, type ManifestFinding } from './finding.ts'
import { type Planned, planFindings, planManifests } from './plan.ts'
import { buildFinding, type Manifest, type ManifestSet, readManifests } from './read.ts'

function checkManifest(manifest: Manifest, group: string): readonly ManifestFinding[] {
  return validateObject(manifest.object, group).map(({ pointer, message, isMistyped }) => {
    const misreading = isMistyped && manifest.misreading(pointer)
    const text = misreading ? `${message} (${misreading})` : message
    return buildFinding(manifest, 'error', 'SchemaInvalid', { message: text, pointer })
  })
}

function withDefaults(manifest: Manifest): Manifest {
  const declaration = findKind(manifest.id.kind)
  if (!declaration) return manifest
  return { ...manifest, object: applyDefaults(declaration, manifest.object) as KubernetesObject }
}

/** Checks every object by its schema and its rules. Returns the valid ones with their defaults. */
export function checkManifests({ manifests, group }: Pick<ManifestSet, 'manifests' | 'group'>): {
  readonly valid: readonly Manifest[]
  readonly findings: readonly ManifestFinding[]
} {
  const valid: Manifest[] = []
  const findings: ManifestFinding[] = []
  for (const manifest of manifests) {
    const found = checkManifest(manifest, group)
    findings.push(...found)
    if (found.length === 0) valid.push(withDefaults(manifest))
  }
  return { valid, findings }
}

/** Finds fields that are set but refused. */
const findUnsupported = (manifests: readonly Manifest[]): readonly ManifestFinding[] =>
  manifests.flatMap((manifest) => {
    const declaration = findKind(manifest.id.kind)
    const fields = declaration ? unsupportedFields(declaration, { spec: manifest.object['spec'] }) : []
    return fields.map(({ pointer, reason: message }) =>
      buildFinding(manifest, 'error', 'NotSupported', { message, pointer }),
    )
  })

/** A map that has every key. */
class AnyKey extends Map<string, string> {
  override has(): boolean {
    return true
  }
}

const anySecret: SecretPresence = { keys: new AnyKey() }

/**
 * Returns a view in which every Secret exists: those that are not in the files are expected in the cluster. Each one
 * that is read is reported to `onAssumed`.
 */
const assumeSecrets = (view: ClusterView, onAssumed: (namespace: string, name: string) => void): ClusterView => ({
  ...view,
  secret(namespace, name) {
    const known = view.secret(namespace, name)
    if (!known) onAssumed(namespace, name)
    return known ?? anySecret
  },
})

export interface Inspection {
  readonly set: ManifestSet
  readonly planned: readonly Planned[]
  readonly findings: readonly ManifestFinding[]
}

/** The change time of all rendered conditions, since files hold no time. */
const NO_TIME = '1970-01-01T00:00:00Z'

const byPlace = (left: ManifestFinding, right: ManifestFinding) =>
  byText(left.file, right.file) ||
  left.line - right.line ||
  byText(left.pointer ?? '', right.pointer ?? '') ||
  byText(left.message, right.message)

function noteAssumedSecret(manifest: Manifest, namespace: string, name: string): ManifestFinding {
  const { kind, name: owner } = manifest.id
  const message = `${kind} ${namespace}/${owner}: Secret ${JSON.stringify(name)} is not in these files; it must be in the cluster`
  return buildFinding(manifest, 'note', 'SecretAssumed', { message })
}

/** Leaves out conditions that repeat refused fields, which have findings of their own. */
function withoutRepeats(findings: readonly ManifestFinding[], unsupported: readonly ManifestFinding[]) {
  const reported = new Set(unsupported.map(({ object, pointer }) => object && `${formatObjectKey(object)} ${pointer}`))
  return findings.filter(({ object, pointer }) => !(object && reported.has(`${formatObjectKey(object)} ${pointer}`)))
}

/** Checks manifests without a cluster: schema, rules, references and plans. The same files give the same bytes. */
export function inspectManifests(
  paths: readonly string[],
  options: Pick<ReconcileContext, 'image' | 'adminPeers' | 'podTemplate' | 'podUsers'> & {
    readonly group: string | undefined
  },
): Inspection {
  const set = readManifests(paths, options.group)
  const { valid, findings } = checkManifests(set)
  const passed = new Set(valid.map(({ id }) => formatObjectKey(id)))
  const unsupported = findUnsupported(valid)
  const assumed = new Map<string, ManifestFinding>()
  const context: ReconcileContext = {
    ...options,
    group: set.group,
    now: NO_TIME,
    resolveAddress: clusterAddress,
  }
  const planned = planManifests(
    {
      manifests: valid,
      secrets: set.secrets,
      configMaps: set.configMaps,
      wrong: [
        ...set.manifests.filter(({ id }) => !passed.has(formatObjectKey(id))).map(({ id }) => id),
        ...set.refused,
      ],
      adaptView: (view, manifest) =>
        assumeSecrets(view, (namespace, name) => {
          const key = `${manifest.file} ${manifest.id.kind} ${manifest.id.name} ${namespace}/${name}`
          assumed.set(key, noteAssumedSecret(manifest, namespace, name))
        }),
    },
    context,
  )
  const ofConditions = withoutRepeats(planFindings(planned), unsupported)
  return {
    set,
    planned,
    findings: [...set.findings, ...findings, ...unsupported, ...ofConditions, ...assumed.values()].sort(byPlace),
  }
}
