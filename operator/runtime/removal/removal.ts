import type { Logger } from 'pino'
import { backoffDelay } from '../../../dataplane/retry/backoff.ts'
import { ApiError, type ApiServer, isNotFound } from '../../cluster/kubernetes/api-server.ts'
import type { Resource } from '../../cluster/kubernetes/resource.ts'
import type { KubernetesObject } from '../../model/view.ts'
import type { Pod } from '../pods/observation.ts'
import { PODS } from '../pods/read-pod-status.ts'
import { pause } from '../queue/pause.ts'
import { NAMESPACES } from '../watch/namespaces.ts'
import type { OwnRights } from './own-rights.ts'
import type { Released } from './release.ts'

const DEPLOYMENTS: Resource = { group: 'apps', version: 'v1', plural: 'deployments', kind: 'Deployment' }

/** Tells an operator that its installation is being removed, and names the objects that grant its rights. */
export interface Removal {
  /** Tells whether no process will follow this one, which then releases what finalizers hold. Called at a stop. */
  readonly isRemoved: () => Promise<boolean>
  readonly rights: OwnRights
  /** Called when the rights are being removed. The answer must be a stop. */
  readonly onGoing: () => void
}

/** Returns the Deployment of a pod: its ReplicaSet is named after it and the hash of the template. */
function findDeployment({ metadata }: KubernetesObject): string | undefined {
  const set = metadata.ownerReferences?.find(({ kind, controller }) => kind === 'ReplicaSet' && controller)?.name
  const hash = metadata.labels?.['pod-template-hash']
  return set !== undefined && hash !== undefined && set.endsWith(`-${hash}`)
    ? set.slice(0, -hash.length - 1)
    : undefined
}

/**
 * Makes the function that tells that no other process will follow this one: the Deployment is gone, being deleted or
 * scaled to zero, or the namespace is being deleted.
 */
export function createIsRemoved(api: ApiServer, ownPod: KubernetesObject): () => Promise<boolean> {
  const deployment = findDeployment(ownPod)
  const { namespace } = ownPod.metadata
  return async function isRemoved() {
    if (deployment === undefined) return false
    try {
      const { metadata, spec } = await api.get<KubernetesObject>(DEPLOYMENTS, namespace, deployment)
      if (metadata.deletionTimestamp !== undefined || (spec as { replicas?: number }).replicas === 0) return true
      const own = await api.get<KubernetesObject>(NAMESPACES, undefined, namespace as string)
      return own.metadata.deletionTimestamp !== undefined
    } catch (error) {
      if (isNotFound(error)) return true
      throw error
    }
  }
}

/** Milliseconds between two checks while a config is held. */
const CHECK_INTERVAL_MS = 2_000

interface RightsKeeperOptions extends Removal {
  readonly leading: () => boolean
  readonly isHolding: () => boolean
  readonly log: Logger
}

/** Protects the operator's rights while a config has our finalizer, and only then. It logs once if it can't. */
export class RightsKeeper {
  readonly #options: RightsKeeperOptions
  readonly #stopping = new AbortController()
  /** The rights are protected. Undefined if unknown, since an earlier process may have protected them. */
  #kept: boolean | undefined
  #givenUp = false
  #running: Promise<void> | undefined

  constructor(options: RightsKeeperOptions) {
    this.#options = options
  }

  start(): void {
    this.#running ??= this.#run()
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#running
  }

  async keep(): Promise<void> {
    if (this.#kept === true || this.#givenUp) return
    try {
      await this.#check(true)
    } catch (error) {
      this.#failed(error)
    }
  }

  /**
   * If no process follows this one, calls `release` to remove our finalizer, and stops protecting the rights: a
   * finalizer must not outlive the operator. Never throws.
   */
  async releaseIfRemoved(release: () => Promise<readonly Released[]>): Promise<void> {
    const { rights, isRemoved, log } = this.#options
    try {
      // The order matters: the objects that `isRemoved` reads may not be readable any more.
      if (!(await this.#isGoing()) && !(await isRemoved())) return
      const { length } = await release()
      log.info({ objects: length }, 'the operator is being removed: it has released all finalizers')
      await rights.release()
    } catch (error) {
      log.warn({ err: error }, 'finalizers may stay; after the removal, `portico operator --release` removes them')
    }
  }

  async #isGoing(): Promise<boolean> {
    const { going, held } = await this.#options.rights.read()
    return going && held.length > 0
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping
    const { leading, isHolding } = this.#options
    while (!signal.aborted) {
      try {
        const wanted = isHolding()
        if (leading() && !this.#givenUp && (wanted || this.#kept !== false)) await this.#check(wanted)
      } catch (error) {
        this.#failed(error)
      }
      await pause(CHECK_INTERVAL_MS, signal)
    }
  }

  async #check(wanted: boolean): Promise<void> {
    const { rights, onGoing } = this.#options
    const found = await rights.read()
    if (found.going) {
      if (found.held.length > 0) onGoing()
      return
    }
    if (wanted && !found.whole)
      return this.#giveUp('the operator’s own rights have other names, or it may not read them')
    if (wanted && found.free.length > 0) await rights.hold(found)
    if (!wanted && found.held.length > 0) await rights.release()
    this.#kept = wanted
  }

  /** A refusal is final. Any other failure passes, and the next check tries again. */
  #failed(error: unknown): void {
    if (error instanceof ApiError && error.status === 403) this.#giveUp(error.message)
    else this.#options.log.debug({ err: error }, 'the operator’s own rights could not be read or kept')
  }

  #giveUp(reason: string): void {
    if (this.#givenUp) return
    this.#givenUp = true
    this.#options.log.warn(
      { reason },
      'the operator’s own rights can’t be kept: if everything is removed at once, run `portico operator --release` afterwards',
    )
  }
}

const WAIT = { first: 250, longest: 10_000 }

/**
 * Reads the pod of this process. Undefined if there is none, or if `stop` comes first. It waits for an API server that
 * is away: if the process ended, Kubernetes would restart it after growing pauses.
 */
export async function readOwnPod(
  api: ApiServer,
  { namespace, name }: { readonly namespace: string; readonly name: string },
  log: Logger,
  stop: AbortSignal,
): Promise<Pod | undefined> {
  let last = ''
  for (let failures = 0; !stop.aborted; failures++) {
    try {
      return await api.get<Pod>(PODS, namespace, name)
    } catch (error) {
      if (isNotFound(error)) return undefined
      const { message } = error as Error
      if (message !== last) log.warn({ err: error, pod: `${namespace}/${name}` }, 'waiting for the API server')
      last = message
    }
    await pause(backoffDelay(failures, WAIT), stop)
  }
  return undefined
}
