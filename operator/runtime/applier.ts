import type { Logger } from 'pino'
import { ApiError, type ApiServer, isNotFound } from '../cluster/kubernetes/api-server.ts'
import { childResource } from '../cluster/kubernetes/child-kinds.ts'
import type { KubernetesObject } from '../model/view.ts'
import { hashOf } from '../render/canonical.ts'
import { type ChildCache, controllerOf } from './child-cache.ts'
import { covers } from './covers.ts'

/** Why a child is not as it should be. */
export interface ChildProblem {
  readonly reason: 'NameTaken' | 'ChildRefused' | 'ChildTerminating'
  readonly message: string
  /** A watch will wake the owner; nothing is gained by trying again before. */
  readonly waits: boolean
}

interface ApplierOptions {
  readonly api: ApiServer
  readonly children: ChildCache
  readonly group: string
  readonly log: Logger
  /** Throws when writes are not ours to make any more. */
  readonly assertLeading: () => void
}

interface Owner {
  readonly kind: string
  readonly uid: string
  readonly name: string
}

/** Field manager of everything rendered. */
const MANAGER = 'portico'
/** Holds `replicas` once nobody sets it any more, so that the number survives the hand-over. */
const REPLICAS_MANAGER = 'portico-replicas'

const titleOf = ({ kind, metadata }: KubernetesObject) => `${kind} ${JSON.stringify(metadata.name)}`

/** Whether our field manager holds `spec.replicas` of a live object. */
function holdsReplicas(live: KubernetesObject): boolean {
  const entries = (live.metadata as { managedFields?: ManagedFields[] }).managedFields ?? []
  return entries.some(
    ({ manager, operation, fieldsV1 }) =>
      manager === MANAGER && operation === 'Apply' && fieldsV1?.['f:spec']?.['f:replicas'] !== undefined,
  )
}

interface ManagedFields {
  manager?: string
  operation?: string
  fieldsV1?: { 'f:spec'?: Record<string, unknown> }
}

const specOf = (object: KubernetesObject) => (object['spec'] ?? {}) as { replicas?: number }

/**
 * Makes the live children of an owner equal to the rendered ones by server-side apply: one request for a child that
 * differs, none for one that doesn't, a delete for one that is no longer rendered.
 */
export class Applier {
  readonly #options: ApplierOptions

  constructor(options: ApplierOptions) {
    this.#options = options
  }

  /** Gives what stands in the way, child by child. Throws what a retry may cure. */
  async apply(owner: Owner, rendered: readonly KubernetesObject[]): Promise<ChildProblem[]> {
    const problems: ChildProblem[] = []
    for (const child of rendered) {
      const problem = await this.#applyOne(owner, child)
      if (problem) problems.push(problem)
    }
    const wanted = new Set(rendered.map(({ kind, metadata }) => `${kind}/${metadata.name}`))
    for (const live of this.#options.children.ownedBy(owner.uid)) {
      if (!wanted.has(`${live.kind}/${live.metadata.name}`) && !live.metadata.deletionTimestamp)
        await this.#remove(live)
    }
    return problems
  }

  async #applyOne(owner: Owner, child: KubernetesObject): Promise<ChildProblem | undefined> {
    const { api, children, group, log, assertLeading } = this.#options
    const resource = childResource(child.kind)
    const { namespace = '', name } = child.metadata
    const annotations = { ...child.metadata.annotations, [`${group}/applied-hash`]: hashOf(child) }
    const desired = { ...child, metadata: { ...child.metadata, annotations } }

    const live = children.get(child.kind, namespace, name) ?? (await this.#read(child))
    if (live) {
      const obstacle = this.#obstacle(owner, live)
      if (obstacle) return obstacle
      if (covers(desired, live)) return undefined
    }
    assertLeading()
    if (live && specOf(child).replicas === undefined && specOf(live).replicas !== undefined && holdsReplicas(live)) {
      const { apiVersion, kind } = child
      const kept = { apiVersion, kind, metadata: { name, namespace }, spec: { replicas: specOf(live).replicas } }
      await api.apply(resource, kept, REPLICAS_MANAGER)
    }
    try {
      children.written(await api.apply(resource, desired, MANAGER))
      log.info({ kind: child.kind, namespace, name, change: live ? 'changed' : 'created' }, 'applied')
      return undefined
    } catch (error) {
      if (!(error instanceof ApiError) || (error.status !== 422 && error.status !== 403 && error.status !== 400))
        throw error
      return { reason: 'ChildRefused', message: `${titleOf(child)} is refused: ${error.message}`, waits: false }
    }
  }

  /** An object that the watches don't show may still be there: without our label it is somebody else's. */
  async #read(child: KubernetesObject): Promise<KubernetesObject | undefined> {
    try {
      return await this.#options.api.get(childResource(child.kind), child.metadata.namespace, child.metadata.name)
    } catch (error) {
      if (isNotFound(error)) return undefined
      throw error
    }
  }

  #obstacle(owner: Owner, live: KubernetesObject): ChildProblem | undefined {
    const holder = controllerOf(live)
    if (
      live.metadata.deletionTimestamp ||
      (holder && holder.kind === owner.kind && holder.name === owner.name && holder.uid !== owner.uid)
    ) {
      return { reason: 'ChildTerminating', message: `an earlier ${titleOf(live)} is still being deleted`, waits: true }
    }
    if (holder?.uid === owner.uid) return undefined
    const whose = holder ? `${holder.kind} ${JSON.stringify(holder.name)}` : 'somebody else'
    return {
      reason: 'NameTaken',
      message: `${titleOf(live)} belongs to ${whose} and is left alone; delete it, or rename this object`,
      waits: false,
    }
  }

  async #remove(live: KubernetesObject): Promise<void> {
    const { api, log, assertLeading } = this.#options
    const { namespace = '', name, uid } = live.metadata
    assertLeading()
    await api.remove(childResource(live.kind), namespace, name, uid)
    log.info({ kind: live.kind, namespace, name, change: 'deleted' }, 'applied')
  }
}
