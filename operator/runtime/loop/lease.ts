import { hrtime } from 'node:process'
import type { Logger } from 'pino'
import { type ApiServer, ignoreStatus } from '../../cluster/kubernetes/api-server.ts'
import type { Resource } from '../../cluster/kubernetes/resource.ts'
import { pause } from '../queue/pause.ts'

const LEASES: Resource = { group: 'coordination.k8s.io', version: 'v1', plural: 'leases', kind: 'Lease' }

interface Lease {
  metadata: { name: string; namespace: string; resourceVersion?: string }
  spec: {
    holderIdentity?: string
    leaseDurationSeconds?: number
    acquireTime?: string
    renewTime?: string
    leaseTransitions?: number
  }
}

export interface LeaseOptions {
  readonly api: ApiServer
  readonly namespace: string
  readonly name: string
  readonly identity: string
  readonly log: Logger
  /** Milliseconds after the last renewal until others take over. */
  readonly duration?: number
  /** Milliseconds without a successful renewal after which we stop leading. Shorter than `duration`. */
  readonly renewDeadline?: number
  readonly retryPeriod?: number
  readonly onStarted: () => void
  readonly onStopped?: (() => void) | undefined
}

const readMonotonicTime = (): number => Number(hrtime.bigint() / 1_000_000n)
const formatMicroTime = (): string => new Date().toISOString().replace('Z', '000Z')

/**
 * Elects a leader over a Lease, as client-go does. Another's lease counts from when *we* saw it change, so clocks need
 * not agree. A leader that can't renew stops before others may start, and becomes a candidate again.
 */
export class LeaderElection {
  readonly #options: LeaseOptions & Required<Pick<LeaseOptions, 'duration' | 'renewDeadline' | 'retryPeriod'>>
  readonly #stopping = new AbortController()
  #leading = false
  #renewedAt = 0
  #observed = { record: '', at: 0 }
  #running: Promise<void> | undefined

  constructor(options: LeaseOptions) {
    this.#options = { duration: 15_000, renewDeadline: 10_000, retryPeriod: 2_000, ...options }
  }

  get leading(): boolean {
    return this.#leading && readMonotonicTime() - this.#renewedAt < this.#options.renewDeadline
  }

  start(): void {
    this.#running ??= this.#run()
  }

  /** Stops leading and releases the lease, so that the next leader need not wait for it to expire. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#running
    if (!this.#leading) return
    this.#lead(false)
    try {
      const lease = await this.#read()
      if (lease?.spec.holderIdentity !== this.#options.identity) return
      lease.spec = { ...lease.spec, holderIdentity: '', leaseDurationSeconds: 1, renewTime: formatMicroTime() }
      await this.#options.api.replace(LEASES, this.#options.namespace, this.#options.name, lease)
    } catch (error) {
      this.#options.log.debug({ error: String(error) }, 'the lease could not be released')
    }
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping
    const { retryPeriod } = this.#options
    while (!signal.aborted) {
      await this.#attempt()
      if (this.#leading && !this.leading) this.#lead(false)
      await pause(retryPeriod * (0.8 + Math.random() * 0.4), signal)
    }
  }

  /** Tries once to acquire or renew the lease. A leader continues until the renewal deadline. */
  async #attempt(): Promise<void> {
    const startedAt = readMonotonicTime()
    try {
      if (await this.#acquireOrRenew()) {
        // The lease was out of date for a while, though nobody else had it. Keys that were skipped then are due now.
        if (this.#leading && !this.leading) this.#lead(false)
        this.#renewedAt = startedAt
        // An attempt that took longer than the deadline doesn't count. The next one may be in time.
        if (!this.#leading && readMonotonicTime() - startedAt < this.#options.renewDeadline) this.#lead(true)
      } else if (this.#leading) {
        this.#lead(false)
      }
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error)
      this.#options.log.warn({ error: message }, 'the lease could not be read or renewed')
    }
  }

  #lead(leading: boolean): void {
    this.#leading = leading
    this.#options.log.info({ identity: this.#options.identity }, leading ? 'leading' : 'no longer leading')
    if (leading) this.#options.onStarted()
    else this.#options.onStopped?.()
  }

  #read(): Promise<Lease | undefined> {
    const { api, namespace, name } = this.#options
    return ignoreStatus(api.get<Lease>(LEASES, namespace, name), 404)
  }

  /** Returns whether we hold the lease afterwards. Throws if the API server gives no answer. */
  async #acquireOrRenew(): Promise<boolean> {
    const { api, namespace, name, identity, duration } = this.#options
    const lease = await this.#read()
    const now = formatMicroTime()
    const { holderIdentity: holder = '', leaseTransitions = 0, acquireTime = now } = lease?.spec ?? {}
    if (lease && holder !== '' && holder !== identity && this.#isHeld(lease)) return false
    const taken = holder !== identity
    const spec = {
      ...lease?.spec,
      holderIdentity: identity,
      leaseDurationSeconds: Math.ceil(duration / 1000),
      renewTime: now,
      acquireTime: taken ? now : acquireTime,
      leaseTransitions: leaseTransitions + (lease && taken ? 1 : 0),
    }
    const fresh = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: { name, namespace }, spec }
    // The resourceVersion makes the write conditional: of two candidates one gets a 409.
    const write = lease
      ? api.replace(LEASES, namespace, name, { ...lease, spec })
      : api.create(LEASES, namespace, fresh)
    return (await ignoreStatus(write, 409)) !== undefined
  }

  #isHeld(lease: Lease): boolean {
    const record = JSON.stringify(lease.spec)
    if (record !== this.#observed.record) this.#observed = { record, at: readMonotonicTime() }
    return readMonotonicTime() - this.#observed.at < (lease.spec.leaseDurationSeconds ?? 15) * 1000
  }
}
