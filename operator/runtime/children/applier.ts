import type { Logger } from 'pino'
import { ignoreStatus } from '../../cluster/kubernetes/api-server.ts'
import { childResource, type Resource } from '../../cluster/kubernetes/resource.ts'
import type { KubernetesObject, OwnerReference } from '../../model/view.ts'
import { formatKey } from '../queue/queue.ts'
import { type ChildProblem, describeTakenName, describeTermination } from './child-problem.ts'
import {
  type ChildChanges,
  ChildMemories,
  type ChildMemory,
  ChildWriter,
  NameHeldError,
  noteChange,
  type WriterOptions,
} from './child-writer.ts'
import { findController, findStanding, type Owner, type Standing } from './ownership.ts'

interface ApplierOptions extends WriterOptions {
  readonly isGone: (owner: OwnerReference, namespace: string) => boolean
  readonly log: Logger
}

interface Found {
  readonly rendered: KubernetesObject
  readonly live: KubernetesObject | undefined
  readonly standing: Standing
}

export interface Applied {
  readonly problems: readonly ChildProblem[]
  readonly isChanged: boolean
}

/** Kinds that grant rights. They come last, once all other objects are known to belong to the workload. */
const GRANTS = new Set(['Role', 'RoleBinding'])
/** Kinds that have pods. The holder of their names decides what runs in pods of these names. */
const WITH_PODS = new Set(['Deployment', 'StatefulSet'])
const PODS: Resource = { group: '', version: 'v1', plural: 'pods', kind: 'Pod' }

/** Tells whether a StatefulSet will adopt a pod: nobody controls it and the selector matches it. */
function isAdoptable(pod: KubernetesObject, { spec }: KubernetesObject): boolean {
  const { matchLabels } = (spec as { selector: { matchLabels: Record<string, string> } }).selector
  const { labels = {} } = pod.metadata
  return (
    findController(pod) === undefined && Object.entries(matchLabels).every(([label, value]) => labels[label] === value)
  )
}

/** Makes the live children of an owner equal to the rendered ones by server-side apply: no request for an equal one. */
export class Applier {
  readonly #options: ApplierOptions
  readonly #writer: ChildWriter
  readonly #memories = new ChildMemories()

  constructor(options: ApplierOptions) {
    this.#options = options
    this.#writer = new ChildWriter(options)
  }

  /**
   * Applies the rendered children. If somebody else holds a name, nothing stays written. If children grant rights,
   * nothing is written until every name is free or ours. Throws errors that a retry may cure.
   */
  async apply(owner: Owner, rendered: readonly KubernetesObject[]): Promise<Applied> {
    const changes: ChildChanges = {}
    try {
      return await this.#apply(owner, rendered, changes)
    } finally {
      const { kind, namespace, name } = owner
      if (Object.keys(changes).length > 0) this.#options.log.info({ kind, namespace, name, ...changes }, 'applied')
    }
  }

  async #apply(owner: Owner, rendered: readonly KubernetesObject[], changes: ChildChanges): Promise<Applied> {
    const givesRights = rendered.some(({ kind }) => GRANTS.has(kind))
    const found: Found[] = []
    for (const child of rendered) found.push(await this.#find(owner, child, givesRights))
    const obstacles = await this.#obstacles(owner, found, changes)
    if (obstacles.length > 0) return { problems: obstacles, isChanged: false }
    const problems = await this.#writeAll(owner, found, changes)
    if (!problems.some(isTaken)) await this.#prune(owner, rendered, changes)
    return { problems, isChanged: found.some(({ rendered: child, live }) => this.#known(child) !== live) }
  }

  /** Writes the children in order. If somebody else holds a name, deletes what it has created. */
  async #writeAll(owner: Owner, found: readonly Found[], changes: ChildChanges): Promise<readonly ChildProblem[]> {
    const problems: ChildProblem[] = []
    const created: KubernetesObject[] = []
    for (const one of found) {
      if (problems.length > 0 && GRANTS.has(one.rendered.kind)) continue
      const problem = await this.#write(owner, one, changes)
      if (problem && isTaken(problem)) {
        for (const live of created) await this.#remove(live, changes)
        return [problem]
      }
      const live = this.#known(one.rendered)
      if (problem) problems.push(problem)
      else if (live && !one.live) created.push(live)
    }
    return problems
  }

  forget({ kind, namespace, name }: Omit<Owner, 'uid'>): void {
    this.#memories.forget(formatKey(kind, namespace, name))
  }

  #findMemory({ kind, namespace, name }: Owner, child: KubernetesObject): ChildMemory {
    return this.#memories.of(formatKey(kind, namespace, name), `${child.kind}/${child.metadata.name}`)
  }

  /** Finds the live object of a child's name. The watches don't show an object without our label; `isRead` reads it. */
  async #find(owner: Owner, rendered: KubernetesObject, isRead: boolean): Promise<Found> {
    const { kind, metadata } = rendered
    const isLooked = isRead || this.#findMemory(owner, rendered).isHeld === true
    const live =
      this.#known(rendered) ??
      (isLooked ? await this.#read(childResource(kind), metadata.namespace, metadata.name) : undefined)
    return { rendered, live, standing: live ? this.#standing(owner, live) : 'own' }
  }

  #known({ kind, metadata }: KubernetesObject): KubernetesObject | undefined {
    return this.#options.children.get(kind, metadata.namespace ?? '', metadata.name)
  }

  /** Writes one child. If its name turns out to be taken, the owner of that object decides what happens. */
  async #write(
    owner: Owner,
    { rendered, live, standing }: Found,
    changes: ChildChanges,
  ): Promise<ChildProblem | undefined> {
    const memory = this.#findMemory(owner, rendered)
    try {
      return await this.#writer.write({ rendered, live, isAdopted: standing === 'left-behind', memory, changes })
    } catch (error) {
      if (!(error instanceof NameHeldError)) throw error
    }
    memory.isHeld = true
    const held = await this.#find(owner, rendered, true)
    const obstacle = held.live && describeObstacle(held.live, held.standing)
    if (obstacle) return obstacle
    return this.#writer.write({ ...held, isAdopted: held.standing === 'left-behind', memory, changes })
  }

  #standing(owner: Owner, live: KubernetesObject): Standing {
    const knownUid = this.#findMemory(owner, live).uid
    return findStanding(live, owner, { isGone: this.#options.isGone, knownUid })
  }

  /** Deletes children that the owner has, or that it left behind, if they are no longer rendered. */
  async #prune(owner: Owner, rendered: readonly KubernetesObject[], changes: ChildChanges): Promise<void> {
    const { children } = this.#options
    const wanted = new Set(rendered.map(({ kind, metadata }) => `${kind}/${metadata.name}`))
    const there = new Set([
      ...children.ownedBy(owner.uid),
      ...children.labelled(owner.kind, owner.namespace, owner.name),
    ])
    for (const live of there) {
      if (wanted.has(`${live.kind}/${live.metadata.name}`)) continue
      const standing = this.#standing(owner, live)
      if (standing === 'own' || standing === 'left-behind') await this.#remove(live, changes)
    }
  }

  /** Finds objects of others that are in the way. If one has the name of a pod of ours, withdraws our own rights. */
  async #obstacles(owner: Owner, found: readonly Found[], changes: ChildChanges): Promise<ChildProblem[]> {
    const obstacles: ChildProblem[] = []
    let arePodsOurs = true
    for (const { rendered, live, standing } of found) {
      const obstacle = live ? describeObstacle(live, standing) : await this.#foreignPod(rendered)
      if (!obstacle) continue
      obstacles.push(obstacle)
      if (WITH_PODS.has(rendered.kind) && obstacle.reason === 'NameTaken') arePodsOurs = false
    }
    if (!arePodsOurs)
      for (const live of this.#options.children.ownedBy(owner.uid))
        if (GRANTS.has(live.kind) && !live.metadata.deletionTimestamp) await this.#remove(live, changes)
    return obstacles
  }

  /** Finds a pod of somebody else with the name of our StatefulSet's one pod, which a Role may name. */
  async #foreignPod(child: KubernetesObject): Promise<ChildProblem | undefined> {
    if (child.kind !== 'StatefulSet') return undefined
    const { namespace, name } = child.metadata
    const pod = await this.#read(PODS, namespace, `${name}-0`)
    if (!pod || isAdoptable(pod, child)) return undefined
    const holder = findController(pod)
    if (pod.metadata.deletionTimestamp || (holder?.kind === 'StatefulSet' && holder.name === name))
      return describeTermination(pod, false)
    return describeTakenName(pod, holder)
  }

  #read(resource: Resource, namespace: string | undefined, name: string): Promise<KubernetesObject | undefined> {
    return ignoreStatus(this.#options.api.get(resource, namespace, name), 404)
  }

  async #remove(live: KubernetesObject, changes: ChildChanges): Promise<void> {
    const { api, namespaces, assertLeading } = this.#options
    const { namespace = '', name, uid } = live.metadata
    await namespaces.assertStays(namespace)
    assertLeading()
    await api.remove(childResource(live.kind), namespace, name, uid)
    noteChange(changes, 'deleted', live)
  }
}

const isTaken = ({ reason }: ChildProblem) => reason === 'NameTaken'

function describeObstacle(live: KubernetesObject, standing: Standing): ChildProblem | undefined {
  if (standing === 'going') return describeTermination(live, true)
  return standing === 'foreign' ? describeTakenName(live, findController(live)) : undefined
}
