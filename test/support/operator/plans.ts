/** Plans manifests in a text as the operator would, for tests of reconcile and render. */
import { createHash } from 'node:crypto'
import { parseAllDocuments } from 'yaml'
import { applyDefaults, findKind } from '../../../crds/index.ts'
import {
  fillWorld,
  type KubernetesObject,
  type SourceObservation,
  type World,
  type WorldContent,
} from '../../../operator/model/index.ts'
import { clusterAddress, type Plan, planAll, type ReconcileContext } from '../../../operator/reconcile/index.ts'

export const context: ReconcileContext = {
  group: 'portico.dev',
  now: '2026-11-20T12:00:00Z',
  image: 'portico:test',
  resolveAddress: clusterAddress,
}

type Document = KubernetesObject & {
  readonly data?: Record<string, string>
  readonly stringData?: Record<string, string>
  readonly sources?: readonly SourceObservation[]
  readonly observation?: { readonly kind: string; readonly replicas: number; readonly readyReplicas: number }
}

/** Returns an object as the API server does: with defaults. */
export function addDefaults(object: KubernetesObject): KubernetesObject {
  const declaration = findKind(object.kind)
  if (!declaration) throw new TypeError(`not a kind of ours: ${object.kind}`)
  return applyDefaults(declaration, object)
}

/** Kind, namespace and name of an object. */
export const formatName = ({ kind, metadata: { namespace, name } }: KubernetesObject) => `${kind} ${namespace} ${name}`

const digest = (value: unknown) => createHash('sha256').update(JSON.stringify(value)).digest('hex').slice(0, 8)

/**
 * Reads a world from YAML documents: our kinds, Secrets, ConfigMaps, `kind: Observation` for the state of pods
 * (`observation: {kind, replicas, readyReplicas, reason, message}` under the workload's name), and `kind: Sources` for
 * the state of a registry's sources.
 */
export function worldContent(text: string): Required<WorldContent> {
  const documents = parseAllDocuments(text).map((document) => document.toJS() as Document | null)
  const found = documents.filter((document) => document !== null)
  const readName = ({ metadata: { name, namespace = 'default' } }: Document) => ({ name, namespace })
  const listKind = (kind: string) => found.filter((document) => document.kind === kind)
  return {
    objects: found
      .filter(({ kind }) => findKind(kind))
      .map((document) => addDefaults({ ...document, metadata: { namespace: 'default', ...document.metadata } })),
    secrets: listKind('Secret').map((secret) => ({
      ...readName(secret),
      keys: Object.entries(secret.stringData ?? {}).map(([key, value]): [string, string] => [key, digest(value)]),
    })),
    configMaps: listKind('ConfigMap').map((configMap) => ({ ...readName(configMap), data: configMap.data ?? {} })),
    observations: listKind('Observation').map((document) => ({
      ...readName(document),
      ...(document.observation as NonNullable<Document['observation']>),
    })),
    sources: listKind('Sources').map((document) => ({ ...readName(document), sources: document.sources ?? [] })),
  }
}

export const buildWorld = (text: string): World => fillWorld(worldContent(text))

export type Plans = ReadonlyMap<string, Plan>

/** A world whose objects can be replaced one at a time; building a world for each replacement takes longer. */
export class ChangedWorld {
  readonly #world: World
  readonly #originals: ReadonlyMap<string, KubernetesObject>
  #placed: KubernetesObject | undefined

  constructor(content: Required<WorldContent>) {
    this.#world = fillWorld(content)
    this.#originals = new Map([...content.objects].map((object) => [formatName(object), object]))
  }

  /** Returns the view of the original objects. */
  get view(): World['view'] {
    return this.with(undefined)
  }

  /** Returns the view with this form of an object in place of the original, valid until the next call. */
  with(form: KubernetesObject | undefined): World['view'] {
    if (this.#placed === form) return this.#world.view
    if (this.#placed !== undefined)
      this.#world.objects.put(this.#originals.get(formatName(this.#placed)) as KubernetesObject)
    if (form !== undefined) this.#world.objects.put(form)
    this.#placed = form
    return this.#world.view
  }
}

/** Returns all plans of a world by `Kind/name`, for worlds of one namespace. */
export const planWorld = (world: World, at: ReconcileContext = context): Plans =>
  new Map(planAll(world.view, at).map(({ object, plan }) => [`${object.kind}/${object.metadata.name}`, plan]))

/** Returns all plans of the manifests in a YAML text, by `Kind/name`. */
export const plansOfText = (text: string): Plans => planWorld(buildWorld(text))

/** Returns a condition of a plan as `Status Reason: message`. */
export function condition(plan: Plan | undefined, type: string): string | undefined {
  const found = plan?.status.conditions.find((candidate) => candidate.type === type)
  return found && `${found.status} ${found.reason}${found.message === '' ? '' : `: ${found.message}`}`
}

/** Returns a plan's child by kind; fails if the plan keeps its live children. */
export function findChild(plan: Plan | undefined, kind: string): KubernetesObject {
  const children = plan?.children
  const found = Array.isArray(children) ? children.find((child) => child.kind === kind) : undefined
  if (!found) throw new Error(`no child of kind ${kind}: ${JSON.stringify(plan?.status)}`)
  return found as KubernetesObject
}

/** Returns the data-plane configuration among a plan's children. */
export function configText(plan: Plan | undefined): string {
  const { data } = findChild(plan, 'ConfigMap') as unknown as { data: Record<string, string> }
  const [text] = Object.values(data)
  return text ?? ''
}
