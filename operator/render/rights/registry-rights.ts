import type { KindDeclaration } from '../../../crds/define.ts'
import type { Workload } from '../object/names.ts'
import { type PodRights, podRights } from './token-rights.ts'

/**
 * What lets a registry read the workloads of its own namespace, for its Kubernetes source. Rights in another namespace
 * are for those to give who own it: whoever may make a registry here would otherwise read everywhere.
 */
export const registryRights = (
  workload: Workload,
  group: string,
  kinds: readonly KindDeclaration[],
  chosen: string | undefined,
): PodRights =>
  podRights(
    workload,
    group,
    { apiGroups: [group], resources: kinds.map(({ plural }) => plural), verbs: ['get', 'list', 'watch'] },
    chosen,
  )
