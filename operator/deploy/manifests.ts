import type { KindDeclaration } from '../../crds/define.ts'
import { chartFiles } from './chart.ts'
import { kustomizeFiles } from './kustomize.ts'
import { monitoringFiles } from './monitoring.ts'
import { nameReferenceFiles } from './name-references.ts'

/** Returns the installation by path below operator/deploy: kustomize base, Helm chart, monitoring. */
export function deployFiles(kinds: readonly KindDeclaration[], group: string): Map<string, string> {
  return new Map([
    ...kustomizeFiles(kinds, group),
    ...[...monitoringFiles()].map(([path, text]) => [`monitoring/${path}`, text] as const),
    ...[...nameReferenceFiles(kinds, group)].map(([path, text]) => [`name-references/${path}`, text] as const),
    ...[...chartFiles(kinds, group)].map(([path, text]) => [`helm/portico/${path}`, text] as const),
  ])
}
