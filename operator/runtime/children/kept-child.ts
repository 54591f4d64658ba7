/** Reduces children to what is kept of them: whole, they would be most of the operator's memory. */
import type { KubernetesObject } from '../../model/view.ts'
import { keptEntries } from './managed-fields.ts'

/** The members of a child that are read besides metadata and status once it is known to match what was rendered. */
const KEPT = new Set(['apiVersion', 'kind', 'metadata', 'status', 'immutable', 'roleRef'])
const KEPT_OF_SPEC = [
  'replicas',
  'selector',
  'serviceName',
  'podManagementPolicy',
  'volumeClaimTemplates',
  'clusterIP',
  'loadBalancerClass',
  'loadBalancerSourceRanges',
  'parentRefs',
] as const

/** Drops the parts of `managedFields` that nobody reads. Changes the object that it gets. */
export function keptChild(object: KubernetesObject): KubernetesObject {
  const metadata = object.metadata as KubernetesObject['metadata'] & { managedFields?: unknown }
  if (metadata.managedFields !== undefined) metadata.managedFields = keptEntries(object)
  return object
}

/** Drops the contents of a child that matches. An edited one arrives whole again. Changes the object that it gets. */
export function letContentsGo(live: KubernetesObject): void {
  for (const field of Object.keys(live)) {
    if (field === 'spec') live[field] = keptSpec(live[field] as Readonly<Record<string, unknown>>)
    else if (!KEPT.has(field)) delete live[field]
  }
}

function keptSpec(spec: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const kept: Record<string, unknown> = {}
  for (const field of KEPT_OF_SPEC) if (spec[field] !== undefined) kept[field] = spec[field]
  if (spec['template'] !== undefined) kept['template'] = keptTemplate(spec['template'] as PodTemplate)
  return kept
}

type Container = Readonly<Record<'name' | 'image', string>>

interface PodTemplate {
  readonly metadata?: { readonly annotations?: Readonly<Record<string, string>> }
  readonly spec: { readonly containers: readonly Container[]; readonly initContainers?: readonly Container[] }
}

/** Returns what tells why another pod template replaces this one. */
function keptTemplate({ metadata, spec }: PodTemplate): PodTemplate {
  const images = (containers: readonly Container[]) => containers.map(({ name, image }) => ({ name, image }))
  const { containers, initContainers } = spec
  return {
    ...(metadata?.annotations ? { metadata: { annotations: metadata.annotations } } : {}),
    spec: { containers: images(containers), ...(initContainers ? { initContainers: images(initContainers) } : {}) },
  }
}
