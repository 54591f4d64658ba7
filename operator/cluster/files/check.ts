import { applyDefaults, kindNamed, unsupportedFields, validateObject } from '../../../crds/index.ts'
import type { KubernetesObject } from '../../model/view.ts'
import type { ManifestFinding } from './finding.ts'
import type { Manifest, ManifestSet } from './read.ts'

function checkManifest(manifest: Manifest, group: string): readonly ManifestFinding[] {
  return validateObject(manifest.object, group).map(({ pointer, message, isMistyped }) => {
    const misreading = isMistyped && manifest.misreading(pointer)
    return {
      severity: 'error',
      reason: 'SchemaInvalid',
      message: misreading ? `${message} (${misreading})` : message,
      file: manifest.file,
      line: manifest.lineOf(pointer),
      ...(pointer === '' ? {} : { pointer }),
      object: manifest.id,
    }
  })
}

function withDefaults(manifest: Manifest): Manifest {
  const declaration = kindNamed(manifest.id.kind)
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
export const findUnsupported = (manifests: readonly Manifest[]): readonly ManifestFinding[] =>
  manifests.flatMap((manifest) => {
    const declaration = kindNamed(manifest.id.kind)
    const fields = declaration ? unsupportedFields(declaration, { spec: manifest.object['spec'] }) : []
    return fields.map(
      ({ pointer, reason }): ManifestFinding => ({
        severity: 'error',
        reason: 'NotSupported',
        message: reason,
        file: manifest.file,
        line: manifest.lineOf(pointer),
        pointer,
        object: manifest.id,
      }),
    )
  })
