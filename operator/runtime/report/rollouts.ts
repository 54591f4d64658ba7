import type { V1PodTemplateSpec } from '@kubernetes/client-node'
import { kinds } from '../../../crds/index.ts'
import { counter, type Reading } from '../../../dataplane/telemetry/metrics/family.ts'
import type { KubernetesObject } from '../../model/view.ts'
import { canonicalJson } from '../../render/object/canonical.ts'
import type { ChildWrite } from '../children/child-writer.ts'
import { findController } from '../children/ownership.ts'

/**
 * The reasons why a workload's pods are replaced: `image` of a server; `operator` (its data plane's image or
 * rendering); `secret` (content that the pods hold); `spec`; `reference` (of something it refers to); `edit` (somebody
 * has changed the template).
 */
const CAUSES = ['image', 'operator', 'secret', 'spec', 'reference', 'edit'] as const
type RolloutCause = (typeof CAUSES)[number]

interface RolloutOptions {
  readonly group: string
  /** The image of the data plane. */
  readonly image: string
  /** Returns the object of ours that owns a child. */
  readonly findOwner: (kind: string, namespace: string, name: string) => KubernetesObject | undefined
}

const rolloutsMetric = counter(
  'portico.operator.rollouts',
  '{rollout}',
  'Changes of pod templates, each of which replaces the pods of a workload, by cause.',
)

const readTemplate = ({ spec }: KubernetesObject) =>
  (spec as { readonly template?: V1PodTemplateSpec } | undefined)?.template
const listContainers = (template: V1PodTemplateSpec | undefined) => [
  ...(template?.spec?.initContainers ?? []),
  ...(template?.spec?.containers ?? []),
]

/** Returns the images that replace others, by the names of their containers. */
function listNewImages(
  after: V1PodTemplateSpec | undefined,
  before: V1PodTemplateSpec | undefined,
): readonly (string | undefined)[] {
  const stood = new Map(listContainers(before).map(({ name, image }) => [name, image]))
  return listContainers(after).flatMap(({ name, image }) =>
    stood.has(name) && stood.get(name) !== image ? [image] : [],
  )
}

/** Tells whether an object has a new spec that its status does not reflect yet. */
function isSpecNew(owner: KubernetesObject | undefined): boolean {
  const { observedGeneration } = (owner?.['status'] ?? {}) as { readonly observedGeneration?: number }
  return owner !== undefined && observedGeneration !== owner.metadata.generation
}

/** Counts rollouts by the first cause that holds. */
export class Rollouts {
  readonly #options: RolloutOptions
  /** By kind and cause, all present from the start: a series that begins at its first count has no rate. */
  readonly #counts: ReadonlyMap<string, Record<RolloutCause, number>>

  constructor(options: RolloutOptions) {
    this.#options = options
    const workloads = Object.values(kinds).filter(({ role }) => role === 'workload')
    this.#counts = new Map(
      workloads.map(({ kind }) => [kind, { image: 0, operator: 0, secret: 0, spec: 0, reference: 0, edit: 0 }]),
    )
  }

  /** Counts a write to a child that existed before, if it has changed the pod template as the API server has it. */
  written(write: ChildWrite): void {
    if (!this.#isTemplateNew(write)) return
    const counts = this.#counts.get(findController(write.rendered)?.kind ?? '')
    if (counts) counts[this.#findCause(write)]++
  }

  readings(): readonly Reading[] {
    return [...this.#counts].flatMap(([kind, counts]) =>
      CAUSES.map((cause) => ({ metric: rolloutsMetric, labels: { kind, cause }, value: counts[cause] })),
    )
  }

  /** The template holds the hash of the rendered one. If that has stayed, somebody has edited the template. */
  #isTemplateNew({ live, written, mayBeEdited }: ChildWrite): boolean {
    const [after, before] = [readTemplate(written), readTemplate(live)]
    if (before === undefined) return false
    return mayBeEdited ? canonicalJson(before) !== canonicalJson(after) : this.#differs('template-hash', after, before)
  }

  /** Tells whether an annotation of ours differs between two templates. */
  #differs(name: string, after: V1PodTemplateSpec | undefined, before: V1PodTemplateSpec | undefined): boolean {
    const key = `${this.#options.group}/${name}`
    return after?.metadata?.annotations?.[key] !== before?.metadata?.annotations?.[key]
  }

  #findCause({ rendered, live, isKnown }: ChildWrite): RolloutCause {
    const { image, findOwner } = this.#options
    const [after, before] = [readTemplate(rendered), readTemplate(live)]
    if (!this.#differs('template-hash', after, before)) return 'edit'
    const images = listNewImages(after, before)
    if (images.some((one) => one !== image)) return 'image'
    if (images.length > 0) return 'operator'
    if (this.#differs('secret-revision', after, before)) return 'secret'
    const owner = findController(rendered)
    if (owner && isSpecNew(findOwner(owner.kind, rendered.metadata.namespace ?? '', owner.name))) return 'spec'
    return isKnown ? 'reference' : 'operator'
  }
}
