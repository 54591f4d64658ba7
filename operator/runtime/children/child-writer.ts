import { ApiError, type ApiServer, hasStatus, isNotFound } from '../../cluster/kubernetes/api-server.ts'
import { childResource } from '../../cluster/kubernetes/resource.ts'
import type { KubernetesObject } from '../../model/view.ts'
import { canonicalJson, hashValue } from '../../render/object/canonical.ts'
import { isNamespaceGoing, NamespaceGoingError, type Namespaces } from '../watch/namespaces.ts'
import { type ChildCache, dropContents, trimChild } from './child-cache.ts'
import { type ChildProblem, describeMissingResource, formatTitle } from './child-problem.ts'
import {
  conflictingFields,
  type FieldPaths,
  foreignManagers,
  hasForeignFields,
  holdsReplicas,
  MANAGER,
  ownFields,
  REPLICAS_MANAGER,
  takenOver,
} from './managed-fields.ts'
import { matches, pickWritten } from './matches.ts'
import { findController } from './ownership.ts'

/** Waits after a refused write in milliseconds, doubled each time. */
const REFUSAL_WAITS = { first: 1_000, longest: 60_000 }
/** Foreign changes reverted at once, and milliseconds for one more: people edit now and then; machines insist. */
const CORRECTIONS = { atOnce: 100, each: 3_000 }

/** The state of one child between two reconciles. It is lost with the process, at the cost of a write. */
export interface ChildMemory {
  uid?: string
  /** The watches don't show the object that has the name. It is read before anything is written. */
  isHeld?: true
  /** The answer to a write that the cluster has changed (an admission webhook), and the hash of what was written. */
  altered?: { readonly hash: string; readonly expected: KubernetesObject }
  /** The last refused write: its hash, the end and length of the wait, and the problem to report. */
  refused?: { readonly what: string; readonly until: number; readonly wait: number; readonly problem: ChildProblem }
  /** The number of foreign changes that may be reverted at once, as of a time in milliseconds since 1970. */
  corrections?: { readonly left: number; readonly at: number }
}

/** Records a refusal of `what` (the hash of what was written and the version that it was written to). */
function noteRefusal(memory: ChildMemory, what: string, problem: ChildProblem): void {
  const { first, longest } = REFUSAL_WAITS
  const wait = memory.refused?.what === what ? Math.min(longest, memory.refused.wait * 2) : first
  memory.refused = { what, until: Date.now() + wait, wait, problem }
}

/** Returns the refusal that still holds for the same write, or undefined if the write may be tried. */
function findStandingRefusal({ refused }: ChildMemory, what: string): ChildProblem | undefined {
  return refused?.what === what && Date.now() < refused.until ? refused.problem : undefined
}

/** Counts a correction. Returns false if it must wait because somebody changes the child again and again. */
function canCorrect(memory: ChildMemory, now = Date.now()): boolean {
  const { left, at } = memory.corrections ?? { left: CORRECTIONS.atOnce, at: now }
  const available = Math.min(CORRECTIONS.atOnce, left + (now - at) / CORRECTIONS.each)
  if (available < 1) return false
  memory.corrections = { left: available - 1, at: now }
  return true
}

export class ChildMemories {
  readonly #byOwner = new Map<string, Map<string, ChildMemory>>()

  of(owner: string, child: string): ChildMemory {
    const children = this.#byOwner.get(owner) ?? new Map<string, ChildMemory>()
    this.#byOwner.set(owner, children)
    const memory = children.get(child) ?? {}
    children.set(child, memory)
    return memory
  }

  forget(owner: string): void {
    this.#byOwner.delete(owner)
  }
}

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

export interface ChildWrite {
  readonly rendered: KubernetesObject
  readonly live: KubernetesObject
  readonly written: KubernetesObject
  /** This process has seen the child in its desired state before. */
  readonly isKnown: boolean
  /** The live child may differ from what was rendered before. Of a child that doesn't, only a part is kept. */
  readonly mayBeEdited: boolean
}

export interface WriterOptions {
  readonly api: ApiServer
  readonly children: ChildCache
  readonly group: string
  readonly namespaces: Namespaces
  readonly onWritten: (write: ChildWrite) => void
  readonly assertLeading: () => void
}

interface ChildState {
  readonly rendered: KubernetesObject
  readonly live: KubernetesObject | undefined
  readonly isAdopted: boolean
  readonly memory: ChildMemory
  readonly changes: ChildChanges
}

/** Thrown if a child was taken to be absent but its name is taken. The object was not changed. */
export class NameHeldError extends Error {
  override readonly name = 'NameHeldError'
}

/** No object has this version: etcd counts from it, and the first write is the second. */
const OF_NO_OBJECT = '1'

/** The status codes of a request that can't succeed as it is. */
const REFUSED = new Set([400, 403, 413, 422])

const readSpec = (object: KubernetesObject) =>
  (object['spec'] ?? {}) as { replicas?: number; type?: string; loadBalancerClass?: string }

/** Makes one live child equal to the rendered one by server-side apply, with no request if it is equal already. */
export class ChildWriter {
  readonly #options: WriterOptions
  /** Live objects that were found equal to what was rendered, and its hash. They need not be compared again. */
  readonly #verified = new WeakMap<KubernetesObject, string>()
  /** Hashes of rendered objects, which are needed again after a write. */
  readonly #hashes = new WeakMap<KubernetesObject, string>()

  constructor(options: WriterOptions) {
    this.#options = options
  }

  /** Returns the problem of the child. Throws errors that a retry may cure, NameHeldError, NamespaceGoingError. */
  async write(child: ChildState): Promise<ChildProblem | undefined> {
    const hash = this.#hashes.get(child.rendered) ?? hashValue(child.rendered)
    this.#hashes.set(child.rendered, hash)
    const isVerified = child.live && !child.isAdopted && this.#verified.get(child.live) === hash
    return isVerified ? undefined : this.#writeUnlessEqual(child, hash)
  }

  async #writeUnlessEqual(
    { rendered, live, isAdopted, memory, changes }: ChildState,
    hash: string,
  ): Promise<ChildProblem | undefined> {
    const { group, namespaces, assertLeading } = this.#options
    const annotations = { ...rendered.metadata.annotations, [`${group}/applied-hash`]: hash }
    const desired = { ...rendered, metadata: { ...rendered.metadata, annotations } }
    const others = live && !isAdopted ? foreignManagers(desired, live) : []
    if (live && !isAdopted && others.length === 0 && isAsWritten(desired, live, hash, memory)) {
      if (live.metadata.uid !== undefined) memory.uid = live.metadata.uid
      this.#verify(live, hash)
      return undefined
    }
    const what = `${hash} ${live?.metadata.uid} ${live?.metadata.resourceVersion}`
    const refusal = findStandingRefusal(memory, what)
    if (refusal) return refusal
    // We have applied this before, and the live object differs now: somebody has changed it.
    const isCorrection = live?.metadata.annotations?.[`${group}/applied-hash`] === hash
    if (live && isCorrection && !canCorrect(memory)) return describeConflict(live, others)
    await namespaces.assertStays(rendered.metadata.namespace ?? '')
    assertLeading()
    try {
      await this.#bring(desired, live, { isAdopted, hasForeignFields: others.length > 0, memory, hash, changes })
      delete memory.refused
      delete memory.isHeld
      return undefined
    } catch (error) {
      if (!live && hasStatus(error, 409)) throw new NameHeldError(formatTitle(rendered))
      const problem = describeRefusal(error, rendered)
      noteRefusal(memory, what, problem)
      return problem
    }
  }

  /** Records that a live object is what was rendered. Drops its contents unless foreign fields must be compared. */
  #verify(live: KubernetesObject, hash: string): void {
    this.#verified.set(live, hash)
    if (!hasForeignFields(live)) dropContents(live)
  }

  #noteWritten(
    desired: KubernetesObject,
    written: KubernetesObject,
    { memory, hash }: { readonly memory: ChildMemory; readonly hash: string },
  ): void {
    memory.uid = written.metadata.uid ?? ''
    if (matches(desired, written)) delete memory.altered
    else memory.altered = { hash, expected: pickWritten(desired, written) }
    // Either it matches, or it becomes what is expected from now on.
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
    const written = trimChild(
      await api.apply(resource, addPreconditions(desired, isReplaced ? undefined : live), MANAGER),
    )
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

  /** Prepares an apply: takes over foreign fields, and keeps replicas that are no longer rendered. */
  async #prepareManagers(
    desired: KubernetesObject,
    live: KubernetesObject,
    { isAdopted, hasForeignFields }: { readonly isAdopted: boolean; readonly hasForeignFields: boolean },
  ): Promise<void> {
    const fields = conflictingFields(desired, live)
    if (isAdopted || hasForeignFields || fields.length > 0) await this.#takeOver(live, isAdopted, fields)
    if (readSpec(desired).replicas === undefined && readSpec(live).replicas !== undefined && holdsReplicas(live))
      await this.#handOverReplicas(live)
  }

  /** Moves foreign fields to our field manager, if the object is still the one that we know. */
  async #takeOver(live: KubernetesObject, isAdopted: boolean, fields: FieldPaths): Promise<void> {
    const { api } = this.#options
    const resource = childResource(live.kind)
    const { namespace = '', name, resourceVersion } = live.metadata
    const holder = isAdopted ? findController(live)?.uid : undefined
    // The cache holds `managedFields` only in part. If the object has changed by now, the patch is refused.
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

/**
 * Returns the object to apply, with a guard: the apply meets the known object or none, else 409 Conflict. So nothing
 * needs to be read first, and no foreign object is overwritten.
 */
const addPreconditions = (desired: KubernetesObject, live: KubernetesObject | undefined): KubernetesObject => ({
  ...desired,
  ...(live === undefined ? {} : keepClass(live, desired)),
  metadata: { ...desired.metadata, ...(live ? { uid: live.metadata.uid } : { resourceVersion: OF_NO_OBJECT }) },
})

/** Keeps the live class of a Service of type LoadBalancer that names none, because the class can't be taken away. */
function keepClass(live: KubernetesObject, desired: KubernetesObject): { readonly spec?: object } {
  const { loadBalancerClass } = readSpec(live)
  const spec = readSpec(desired)
  const isKept = loadBalancerClass !== undefined && spec.type === 'LoadBalancer' && spec.loadBalancerClass === undefined
  return isKept ? { spec: { ...spec, loadBalancerClass } } : {}
}

/**
 * Tells whether the API server refuses an object as written. A field of the wrong type, or an unknown one, is 500 to a
 * server-side apply.
 */
const isRefusal = (error: unknown): error is ApiError =>
  error instanceof ApiError &&
  (REFUSED.has(error.status) ||
    (error.status === 500 && error.message.startsWith('failed to create typed patch object')))

/** Returns the problem of a write that can't succeed as it is. Throws errors that a retry may cure. */
function describeRefusal(error: unknown, rendered: KubernetesObject): ChildProblem {
  if (isNamespaceGoing(error)) throw new NamespaceGoingError(String(error))
  const { wayOut } = childResource(rendered.kind)
  if (isNotFound(error) && wayOut !== undefined) return describeMissingResource(rendered, wayOut)
  if (!isRefusal(error)) throw error
  return { reason: 'ChildRefused', message: `${formatTitle(rendered)} is refused: ${error.message}`, waits: false }
}

/** Tells whether we have applied a live child, and can change it to what is rendered. */
const isOursToKeep = (desired: KubernetesObject, live: KubernetesObject) =>
  ownFields(live) !== undefined && !mustBeReplaced(desired, live)

/** Tells whether a live child is what was rendered, or what the cluster makes of that. */
function isAsWritten(
  desired: KubernetesObject,
  live: KubernetesObject,
  hash: string,
  { altered }: ChildMemory,
): boolean {
  if (!isOursToKeep(desired, live)) return false
  return matches(desired, live) || (altered?.hash === hash && matches(altered.expected, live))
}

function describeConflict(live: KubernetesObject, others: readonly string[]): ChildProblem {
  const who = others.length > 0 ? ` by ${others.join(', ')}` : ''
  const message = `${formatTitle(live)} is changed repeatedly${who}; the operator resets it every few seconds`
  return { reason: 'ChildContested', message, waits: false }
}

const readFields = (value: unknown): Fields => (typeof value === 'object' && value !== null ? (value as Fields) : {})
const differs = (a: unknown, b: unknown) => canonicalJson(a ?? null) !== canonicalJson(b ?? null)

const readPolicy = (spec: Fields) => spec['podManagementPolicy'] ?? 'OrderedReady'

/**
 * Tells whether a replaced child's pods fit the new one: only the order in which pods are made differs. They keep
 * running.
 */
function keepsPods(rendered: KubernetesObject, live: KubernetesObject): boolean {
  const wanted = readFields(rendered['spec'])
  const there = readFields(live['spec'])
  const withSamePolicy = { ...live, spec: { ...there, podManagementPolicy: readPolicy(wanted) } }
  return (
    live.kind === 'StatefulSet' && readPolicy(wanted) !== readPolicy(there) && !mustBeReplaced(rendered, withSamePolicy)
  )
}

/**
 * Tells whether a live child differs in a field that the API server never changes, so that only a new object can be
 * right.
 */
function mustBeReplaced(rendered: KubernetesObject, live: KubernetesObject): boolean {
  const wanted = readFields(rendered['spec'])
  const there = readFields(live['spec'])
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
        readPolicy(wanted) !== readPolicy(there) ||
        differs(wanted['volumeClaimTemplates'] ?? [], there['volumeClaimTemplates'] ?? [])
      )
    default:
      return false
  }
}
