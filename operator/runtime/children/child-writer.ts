import { ApiError, type ApiServer, isNotFound } from '../../cluster/kubernetes/api-server.ts'
import { childResource } from '../../cluster/kubernetes/child-kinds.ts'
import type { KubernetesObject } from '../../model/view.ts'
import { canonicalJson, hashOf } from '../../render/object/canonical.ts'
import { NamespaceGoingError, type Namespaces, saysNamespaceGoes } from '../watch/namespaces.ts'
import { type ChildCache, controllerOf } from './child-cache.ts'
import { type ChildMemory, mayCorrect, noteRefusal, standingRefusal } from './child-memory.ts'
import { type ChildProblem, notServed, titleOf } from './child-problem.ts'
import type { FieldPaths } from './field-set.ts'
import { keptChild, letContentsGo } from './kept-child.ts'
import {
  foreignManagers,
  hasForeignFields,
  hindrances,
  holdsReplicas,
  MANAGER,
  ownFields,
  REPLICAS_MANAGER,
  takenOver,
} from './managed-fields.ts'
import { asWritten, matches } from './matches.ts'

/** Children that were written, as `kind/name`, by what became of them. */
export type ChildChanges = Partial<Record<'created' | 'changed' | 'adopted' | 'replaced' | 'deleted', string[]>>

type Fields = Readonly<Record<string, unknown>>

export function noteChange(
  changes: ChildChanges,
  change: keyof ChildChanges,
  { kind, metadata }: KubernetesObject,
): void {
  changes[change] ??= []
  changes[change].push(`${kind}/${metadata.name}`)
}

/** A write to a child that was there before. */
export interface ChildWrite {
  readonly rendered: KubernetesObject
  /** As it stood before. */
  readonly live: KubernetesObject
  readonly written: KubernetesObject
  /** Whether this process has seen the child as it should be before. */
  readonly isKnown: boolean
  /** Whether the child that stood may be another than was rendered then. Of one that is not, not all is kept. */
  readonly mayBeEdited: boolean
}

export interface WriterOptions {
  readonly api: ApiServer
  readonly children: ChildCache
  readonly group: string
  readonly namespaces: Namespaces
  /** Hears of each write to a child that was there before. */
  readonly onWritten: (write: ChildWrite) => void
  /** Throws when writes are not ours to make any more. */
  readonly assertLeading: () => void
}

/** One child as it should be and as it is. */
export interface ChildState {
  readonly rendered: KubernetesObject
  readonly live: KubernetesObject | undefined
  /** The live object was left behind by its owner and is to be taken up. */
  readonly isAdopted: boolean
  readonly memory: ChildMemory
  /** Gets the child where it is written. */
  readonly changes: ChildChanges
}

/** Thrown where an object is on the name of a child that was taken to be absent: it was not touched. */
export class NameHeldError extends Error {
  override readonly name = 'NameHeldError'
}

/** No object has this version: etcd counts from it, and the first write is the second. */
const OF_NO_OBJECT = '1'

/** What a request that can't succeed as it is comes back with. */
const REFUSED = new Set([400, 403, 413, 422])

const specOf = (object: KubernetesObject) =>
  (object['spec'] ?? {}) as { replicas?: number; type?: string; loadBalancerClass?: string }

/** Makes one live child equal to the rendered one by server-side apply: no request where it is so already. */
export class ChildWriter {
  readonly #options: WriterOptions
  /** Live objects that were found to be what was rendered, and the hash of that: such a one need not be compared again. */
  readonly #verified = new WeakMap<KubernetesObject, string>()
  /** Hashes of rendered objects: after a write they are looked at once more. */
  readonly #hashes = new WeakMap<KubernetesObject, string>()

  constructor(options: WriterOptions) {
    this.#options = options
  }

  /** Gives what stands in the way. Throws what a retry may cure, a NameHeldError and a NamespaceGoingError. */
  async write(child: ChildState): Promise<ChildProblem | undefined> {
    const hash = this.#hashes.get(child.rendered) ?? hashOf(child.rendered)
    this.#hashes.set(child.rendered, hash)
    const isVerified = child.live && !child.isAdopted && this.#verified.get(child.live) === hash
    return isVerified ? undefined : this.#writeUnlessEqual(child, hash)
  }

  async #writeUnlessEqual(
    { rendered, live, isAdopted, memory, changes }: ChildState,
    hash: string,
  ): Promise<ChildProblem | undefined> {
    const { group, namespaces, assertLeading } = this.#options
    const desired = annotated(rendered, { [`${group}/applied-hash`]: hash })
    const others = live && !isAdopted ? foreignManagers(desired, live) : []
    if (live && !isAdopted && others.length === 0 && isAsWritten(desired, live, hash, memory)) {
      if (live.metadata.uid !== undefined) memory.uid = live.metadata.uid
      this.#verify(live, hash)
      return undefined
    }
    const what = `${hash} ${live?.metadata.uid} ${live?.metadata.resourceVersion}`
    const refusal = standingRefusal(memory, what)
    if (refusal) return refusal
    // Ours was applied already and is otherwise now: somebody has changed it.
    const isCorrection = live?.metadata.annotations?.[`${group}/applied-hash`] === hash
    if (live && isCorrection && !mayCorrect(memory)) return contested(live, others)
    await namespaces.assertStays(rendered.metadata.namespace ?? '')
    assertLeading()
    try {
      await this.#bring(desired, live, { isAdopted, hasForeignFields: others.length > 0, memory, hash, changes })
      delete memory.refused
      delete memory.isHeld
      return undefined
    } catch (error) {
      if (!live && error instanceof ApiError && error.status === 409) throw new NameHeldError(titleOf(rendered))
      const problem = refusedWith(error, rendered)
      noteRefusal(memory, what, problem)
      return problem
    }
  }

  /** Notes that a live object is what was rendered. Its contents go, unless what others have set in it must be compared. */
  #verify(live: KubernetesObject, hash: string): void {
    this.#verified.set(live, hash)
    if (!hasForeignFields(live)) letContentsGo(live)
  }

  #noteWritten(
    desired: KubernetesObject,
    written: KubernetesObject,
    { memory, hash }: { readonly memory: ChildMemory; readonly hash: string },
  ): void {
    memory.uid = written.metadata.uid ?? ''
    if (matches(desired, written)) delete memory.altered
    else memory.altered = { hash, expected: asWritten(desired, written) }
    // It matches, or what is expected from now on is taken from it.
    if (foreignManagers(desired, written).length === 0 && isOursToKeep(desired, written)) this.#verify(written, hash)
  }

  async #bring(
    desired: KubernetesObject,
    live: KubernetesObject | undefined,
    how: { isAdopted: boolean; hasForeignFields: boolean; memory: ChildMemory; hash: string; changes: ChildChanges },
  ): Promise<void> {
    const { api, children, onWritten } = this.#options
    const resource = childResource(desired.kind)
    const { namespace = '', name } = desired.metadata
    const isReplaced = live !== undefined && mustBeReplaced(desired, live)
    if (isReplaced && keepsPods(desired, live)) await api.removeAlone(resource, namespace, name, live.metadata.uid)
    else if (isReplaced) await api.remove(resource, namespace, name, live.metadata.uid)
    else if (live) await this.#prepareManagers(desired, live, how)
    const written = keptChild(await api.apply(resource, guarded(desired, isReplaced ? undefined : live), MANAGER))
    if (live)
      onWritten({
        rendered: desired,
        live,
        written,
        isKnown: how.memory.uid !== undefined,
        mayBeEdited: !this.#verified.has(live),
      })
    this.#noteWritten(desired, written, how)
    children.written(written)
    const change = live === undefined ? 'created' : isReplaced ? 'replaced' : how.isAdopted ? 'adopted' : 'changed'
    noteChange(how.changes, change, desired)
  }

  /** Prepares an apply to a live object: takes fields of others over, keeps the replicas that are not rendered any more. */
  async #prepareManagers(
    desired: KubernetesObject,
    live: KubernetesObject,
    { isAdopted, hasForeignFields }: { readonly isAdopted: boolean; readonly hasForeignFields: boolean },
  ): Promise<void> {
    const fields = hindrances(desired, live)
    if (isAdopted || hasForeignFields || fields.length > 0) await this.#takeOver(live, isAdopted, fields)
    if (specOf(desired).replicas === undefined && specOf(live).replicas !== undefined && holdsReplicas(live))
      await this.#handOverReplicas(live)
  }

  /** Writes down what others have set as set by us, if the object is still the one that we know. */
  async #takeOver(live: KubernetesObject, isAdopted: boolean, fields: FieldPaths): Promise<void> {
    const { api } = this.#options
    const resource = childResource(live.kind)
    const { namespace = '', name, resourceVersion } = live.metadata
    const holder = isAdopted ? controllerOf(live)?.uid : undefined
    // Who has set what is not kept whole. Should the object be another by now, the patch is refused.
    const whole = await api.get(resource, namespace, name)
    const entries = takenOver(whole, { all: isAdopted, owners: holder === undefined ? [] : [holder], fields })
    await api.jsonPatch(resource, namespace, name, {
      fieldManager: MANAGER,
      operations: [
        { op: 'replace', path: '/metadata/managedFields', value: entries },
        { op: 'replace', path: '/metadata/resourceVersion', value: resourceVersion },
      ],
    })
  }

  async #handOverReplicas({ apiVersion, kind, metadata, ...live }: KubernetesObject): Promise<void> {
    const { name, namespace = '' } = metadata
    const { replicas } = live['spec'] as { replicas: number }
    const kept = { apiVersion, kind, metadata: { name, namespace }, spec: { replicas } }
    await this.#options.api.apply(childResource(kind), kept, REPLICAS_MANAGER)
  }
}

const annotated = (rendered: KubernetesObject, annotations: Readonly<Record<string, string>>): KubernetesObject => ({
  ...rendered,
  metadata: { ...rendered.metadata, annotations: { ...rendered.metadata.annotations, ...annotations } },
})

/**
 * What is applied, so that it meets the object that is known of or none: 409 Conflict where another one has the name by
 * now. Nothing needs to be read before it, and an object of somebody else is never overwritten.
 */
const guarded = (desired: KubernetesObject, live: KubernetesObject | undefined): KubernetesObject => ({
  ...desired,
  ...(live === undefined ? {} : withClassOf(live, desired)),
  metadata: { ...desired.metadata, ...(live ? { uid: live.metadata.uid } : { resourceVersion: OF_NO_OBJECT }) },
})

/** The spec of a Service of type LoadBalancer that names no class with the class that it has: it can't be taken away. */
function withClassOf(live: KubernetesObject, desired: KubernetesObject): { readonly spec?: object } {
  const { loadBalancerClass } = specOf(live)
  const spec = specOf(desired)
  const isKept = loadBalancerClass !== undefined && spec.type === 'LoadBalancer' && spec.loadBalancerClass === undefined
  return isKept ? { spec: { ...spec, loadBalancerClass } } : {}
}

/**
 * Whether the API server says that an object can't be as it is written. A field of the wrong type, or one that there is
 * not, is 500 to a server-side apply: it is found before the object is decoded.
 */
const isRefusal = (error: unknown): error is ApiError =>
  error instanceof ApiError &&
  (REFUSED.has(error.status) ||
    (error.status === 500 && error.message.startsWith('failed to create typed patch object')))

/** The problem of a write that can't succeed as it is. Throws what a retry may cure, and a NamespaceGoingError. */
function refusedWith(error: unknown, rendered: KubernetesObject): ChildProblem {
  if (saysNamespaceGoes(error)) throw new NamespaceGoingError(String(error))
  const { wayOut } = childResource(rendered.kind)
  if (isNotFound(error) && wayOut !== undefined) return notServed(rendered, wayOut)
  if (!isRefusal(error)) throw error
  return { reason: 'ChildRefused', message: `${titleOf(rendered)} is refused: ${error.message}`, waits: false }
}

/** Whether a live child was applied by us, and can be brought to what is rendered. */
const isOursToKeep = (desired: KubernetesObject, live: KubernetesObject) =>
  ownFields(live) !== undefined && !mustBeReplaced(desired, live)

/** Whether a live child is what was rendered, or what the cluster makes of it. */
function isAsWritten(
  desired: KubernetesObject,
  live: KubernetesObject,
  hash: string,
  { altered }: ChildMemory,
): boolean {
  if (!isOursToKeep(desired, live)) return false
  return matches(desired, live) || (altered?.hash === hash && matches(altered.expected, live))
}

function contested(live: KubernetesObject, others: readonly string[]): ChildProblem {
  const who = others.length > 0 ? ` by ${others.join(', ')}` : ''
  const message = `${titleOf(live)} is changed again and again${who}; it is put back now and then`
  return { reason: 'ChildContested', message, waits: false }
}

const fieldsOf = (value: unknown): Fields => (typeof value === 'object' && value !== null ? (value as Fields) : {})
const differs = (a: unknown, b: unknown) => canonicalJson(a ?? null) !== canonicalJson(b ?? null)

const policyOf = (spec: Fields) => spec['podManagementPolicy'] ?? 'OrderedReady'

/**
 * Whether the pods of a child that is replaced belong to the new one as they are: then they run on, and are taken up by it.
 * They do where nothing but the order differs in which pods are made.
 */
function keepsPods(rendered: KubernetesObject, live: KubernetesObject): boolean {
  const wanted = fieldsOf(rendered['spec'])
  const there = fieldsOf(live['spec'])
  const withPolicyOf = { ...live, spec: { ...there, podManagementPolicy: policyOf(wanted) } }
  return live.kind === 'StatefulSet' && policyOf(wanted) !== policyOf(there) && !mustBeReplaced(rendered, withPolicyOf)
}

/**
 * Whether a live child is another one than the rendered in what the API server lets nobody change, so that only a new
 * object can be right: somebody has deleted ours and made it anew otherwise, or has made a ConfigMap immutable.
 */
function mustBeReplaced(rendered: KubernetesObject, live: KubernetesObject): boolean {
  const wanted = fieldsOf(rendered['spec'])
  const there = fieldsOf(live['spec'])
  switch (live.kind) {
    case 'ConfigMap':
      return live['immutable'] === true
    case 'RoleBinding':
      return differs(rendered['roleRef'], live['roleRef'])
    case 'Service':
      return there['clusterIP'] === 'None' && wanted['type'] !== 'ExternalName'
    case 'Deployment':
      return differs(wanted['selector'], there['selector'])
    case 'StatefulSet':
      return (
        differs(wanted['selector'], there['selector']) ||
        differs(wanted['serviceName'], there['serviceName']) ||
        policyOf(wanted) !== policyOf(there) ||
        differs(wanted['volumeClaimTemplates'] ?? [], there['volumeClaimTemplates'] ?? [])
      )
    default:
      return false
  }
}
