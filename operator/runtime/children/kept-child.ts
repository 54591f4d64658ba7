/** Children as they are kept. There are four to a workload, and whole they would be most of what the operator holds. */
import type { KubernetesObject } from '../../model/view.ts'
import { keptEntries } from './managed-fields.ts'

/** What is asked of a child besides its metadata and status once it is known to be what was rendered. */
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

/** A child as it came, with no more of who has set which field of it than is asked. Changes the object that it gets. */
export function keptChild(object: KubernetesObject): KubernetesObject {
  const metadata = object.metadata as KubernetesObject['metadata'] & { managedFields?: unknown }
  if (metadata.managedFields !== undefined) metadata.managedFields = keptEntries(object)
  return object
}

/**
 * Lets go of the contents of a child that was found to be what was rendered: where something else is rendered, it is
 * written, and where somebody changes it, it comes whole again. Changes the object that it gets.
 */
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

/** What tells why another template takes the place of this one. */
function keptTemplate({ metadata, spec }: PodTemplate): PodTemplate {
  const images = (containers: readonly Container[]) => containers.map(({ name, image }) => ({ name, image }))
  const { containers, initContainers } = spec
  return {
    ...(metadata?.annotations ? { metadata: { annotations: metadata.annotations } } : {}),
    spec: { containers: images(containers), ...(initContainers ? { initContainers: images(initContainers) } : {}) },
  }
}
