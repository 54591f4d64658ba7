import type { AgentOptions } from 'node:https'
import { type Cluster, type DispatcherOptions, KubeConfig, type RequestContext } from '@kubernetes/client-node'
import type { Dispatcher } from 'undici'

/**
 * A kubeconfig whose connections are kept. The client builds a new dispatcher, and with it a new TLS connection, for
 * every request; here one pool lives for as long as the CA and the client certificate stay the same. Bearer tokens are
 * read anew for each request by the client itself.
 */
export class PooledKubeConfig extends KubeConfig {
  #pool: Dispatcher | undefined
  #poolMaterial = ''
  #latestMaterial = ''

  /** Nothing to build where the pool will do. */
  override createDispatcherOptions(cluster: Cluster | null, agentOptions: AgentOptions): DispatcherOptions {
    const { ca, cert, key } = agentOptions
    this.#latestMaterial = [cluster?.server, ca, cert, key].map(String).join('\n')
    return this.#isCurrent ? { type: 'none' } : super.createDispatcherOptions(cluster, agentOptions)
  }

  get #isCurrent(): boolean {
    return this.#pool !== undefined && this.#poolMaterial === this.#latestMaterial
  }

  override async applySecurityAuthentication(context: RequestContext): Promise<void> {
    await super.applySecurityAuthentication(context)
    const fresh = context.getDispatcher()
    if (this.#pool && this.#isCurrent) {
      context.setDispatcher(this.#pool)
      // Two first requests at a time build one each.
      fresh?.destroy().catch(() => {
        // Nothing was sent on it.
      })
      return
    }
    if (!fresh) return
    const outdated = this.#pool
    this.#pool = fresh
    this.#poolMaterial = this.#latestMaterial
    // Requests in flight end on the old pool.
    outdated?.close().catch(() => {
      // Their callers get their errors; nobody waits for the pool itself.
    })
  }

  /** Ends all connections. */
  async closePool(): Promise<void> {
    const pool = this.#pool
    this.#pool = undefined
    await pool?.destroy()
  }
}

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
