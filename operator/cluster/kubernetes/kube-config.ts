import type { AgentOptions } from 'node:https'
import { type Cluster, type DispatcherOptions, KubeConfig, type RequestContext } from '@kubernetes/client-node'
import type { Dispatcher } from 'undici'

/** Connections that are kept. */
interface Pool {
  readonly dispatcher: Dispatcher
  /** The server, and the CA and client certificate that the connections are made with. */
  readonly material: string
  /** The number of the request that it was made for. */
  readonly since: number
}

/**
 * A kubeconfig whose connections are kept. The client builds a new dispatcher, and with it a new TLS connection, for
 * every request; here one pool lives for as long as the CA and the client certificate stay the same. Bearer tokens are
 * read anew for each request by the client itself.
 */
export class PooledKubeConfig extends KubeConfig {
  #pool: Pool | undefined
  #requests = 0

  /**
   * Sets a request's headers and dispatcher, which is to be used at once: when another pool takes its place, it is closed
   * in a later turn of the event loop. Throws what reading the credentials throws.
   */
  override async applySecurityAuthentication(context: RequestContext): Promise<void> {
    const number = ++this.#requests
    let material = ''
    let pool: Pool | undefined
    // Many requests are under way here, each with what it has read of the files: what is found out of one stays with it.
    const ofThisRequest: KubeConfig = Object.create(this, {
      createDispatcherOptions: {
        value: (cluster: Cluster | null, agentOptions: AgentOptions): DispatcherOptions => {
          material = materialOf(cluster, agentOptions)
          pool = this.#poolFor(material, number)
          // Nothing to build where the pool will do.
          return pool ? { type: 'none' } : this.createDispatcherOptions(cluster, agentOptions)
        },
      },
    })
    await super.applySecurityAuthentication.call(ofThisRequest, context)
    const fresh = context.getDispatcher()
    pool ??= this.#poolFor(material, number)
    if (pool) {
      context.setDispatcher(pool.dispatcher)
      // Two first requests at a time build one each.
      fresh?.destroy().catch(() => {
        // Nothing was sent on it.
      })
    } else if (fresh) this.#replace({ dispatcher: fresh, material, since: number })
  }

  /** The pool, where a request may go over it: it's of the same material, or of what a later request has read. */
  #poolFor(material: string, number: number): Pool | undefined {
    return this.#pool && (this.#pool.material === material || this.#pool.since > number) ? this.#pool : undefined
  }

  #replace(pool: Pool): void {
    const outdated = this.#pool?.dispatcher
    this.#pool = pool
    // Requests in flight end on the old pool, and those begin there that were given it in this turn.
    setImmediate(() =>
      outdated?.close().catch(() => {
        // Their callers get their errors; nobody waits for the pool itself.
      }),
    )
  }

  /** Ends all connections. */
  async closePool(): Promise<void> {
    const pool = this.#pool
    this.#pool = undefined
    await pool?.dispatcher.destroy()
  }
}

const materialOf = (cluster: Cluster | null, { ca, cert, key }: AgentOptions): string =>
  [cluster?.server, ca, cert, key].map(String).join('\n')

/**
 * Reads the kubeconfig from a file, or from where the client looks by default: KUBECONFIG, the home folder, the pod's
 * service account. Throws an Error that says what is missing.
 */
export function loadKubeConfig(file?: string): PooledKubeConfig {
  const config = new PooledKubeConfig()
  if (file) config.loadFromFile(file)
  else config.loadFromDefault()
  if (!config.getCurrentCluster()) {
    throw new Error(`no cluster to talk to: ${file ?? 'the default kubeconfig'} names none; give --kubeconfig FILE`)
  }
  return config
}
