import { childName, type Workload } from '../object/names.ts'
import { type PodRights, podRights } from './token-rights.ts'

/** The one pod of a StatefulSet that is a workload's. */
export const podName = ({ kind, metadata }: Workload): string => `${childName(kind, metadata.name)}-0`

/**
 * What lets the proxy of a stdio server attach to the server's container, and to nothing else: a Role for the one pod
 * by its name. API servers ask for `get` or for `create` to attach over a WebSocket, by their version.
 */
export const attachRights = (workload: Workload, group: string, chosen: string | undefined): PodRights =>
  podRights(
    workload,
    group,
    { apiGroups: [''], resources: ['pods/attach'], resourceNames: [podName(workload)], verbs: ['create', 'get'] },
    chosen,
  )
