import type { KubernetesObject, OwnerReference } from '../../model/view.ts'

export interface ChildProblem {
  readonly reason:
    | 'NameTaken'
    | 'ChildRefused'
    | 'ChildTerminating'
    | 'ChildContested'
    | 'KindNotServed'
    | 'FinalizerRefused'
  readonly message: string
  /** A watch will wake the owner, so that an earlier retry gains nothing. */
  readonly waits: boolean
}

export const formatTitle = ({ kind, metadata }: KubernetesObject): string => `${kind} ${JSON.stringify(metadata.name)}`

export function describeTakenName(live: KubernetesObject, holder: OwnerReference | undefined): ChildProblem {
  const whose = holder ? `${holder.kind} ${JSON.stringify(holder.name)}` : 'somebody else'
  const message = `${formatTitle(live)} belongs to ${whose} and is left alone; delete it, or rename this object`
  return { reason: 'NameTaken', message, waits: false }
}

/** Reports that the cluster has no such kind because its CRD isn't installed. */
export const describeMissingResource = (
  { apiVersion, kind, metadata }: KubernetesObject,
  wayOut: string,
): ChildProblem => ({
  reason: 'KindNotServed',
  message: `${kind} ${JSON.stringify(metadata.name)} can’t be made: this cluster doesn’t serve ${apiVersion}; ${wayOut}`,
  waits: false,
})

export const describeTermination = (live: KubernetesObject, waits: boolean): ChildProblem => ({
  reason: 'ChildTerminating',
  message: `an earlier ${formatTitle(live)} is still being deleted`,
  waits,
})
