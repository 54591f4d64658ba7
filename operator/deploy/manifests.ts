import type { KindDeclaration } from '../../crds/define.ts'
import { buildChartFiles } from './chart.ts'
import { buildKustomizeFiles } from './kustomize.ts'
import { buildMonitoringFiles } from './monitoring.ts'
import { buildNameReferenceFiles } from './name-references.ts'

/** Returns the installation by path below operator/deploy: kustomize base, Helm chart, monitoring. */
export function deployFiles(kinds: readonly KindDeclaration[], group: string): Map<string, string> {
  return new Map([
    ...buildKustomizeFiles(kinds, group),
    ...[...buildMonitoringFiles()].map(([path, text]) => [`monitoring/${path}`, text] as const),
    ...[...buildNameReferenceFiles(kinds, group)].map(([path, text]) => [`name-references/${path}`, text] as const),
    ...[...buildChartFiles(kinds, group)].map(([path, text]) => [`helm/portico/${path}`, text] as const),
  ])
}
