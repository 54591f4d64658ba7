import { existsSync, readFileSync } from 'node:fs'
import type { AgentOptions, RequestOptions } from 'node:https'
import { homedir } from 'node:os'
import { delimiter, join } from 'node:path'
import { type Cluster, type DispatcherOptions, KubeConfig, type RequestContext } from '@kubernetes/client-node'
import type { Dispatcher } from 'undici'
import { createExecCredentials } from './exec-credential.ts'
import { type KubeCluster, type KubeUser, readKubeConfigs } from './kubeconfig-files.ts'

type Headers = Readonly<Record<string, string | string[]>>

interface Pool {
  readonly dispatcher: Dispatcher
  /** The server, and the CA and client certificate of the connections. */
  readonly material: string
  /** The number of the request that has created it. */
  readonly since: number
}

/**
 * A kubeconfig with pooled connections. The client builds a dispatcher, and a TLS connection, for every request. Here
 * one pool lives as long as the CA and the client certificate stay the same.
 */
export class PooledKubeConfig extends KubeConfig {
  #pool: Pool | undefined
  #requests = 0
  readonly #execCredentials = createExecCredentials()

  constructor() {
    super()
    // The client's own authenticators won't do: they keep a token for a minute, and ignore half of a plugin's settings.
    this.addAuthenticator({
      isAuthProvider: (user: KubeUser) => user.plugin !== undefined || user.tokenFile !== undefined,
      applyAuthentication: (user: KubeUser, options) => this.#authenticate(user, options),
    })
  }

  async #authenticate(user: KubeUser, options: RequestOptions): Promise<void> {
    const { name, plugin, tokenFile, spareToken } = user
    let bearer = tokenFile === undefined ? undefined : tokenIn(tokenFile, spareToken)
    if (plugin !== undefined) {
      const ofCluster = () => formatClusterInfo(this.getCurrentCluster())
      const { token, cert, key } = await this.#execCredentials.get(name, plugin, ofCluster)
      bearer ??= token
      if (cert !== undefined) Object.assign(options, { cert, key })
    }
    if (bearer !== undefined) options.headers = { ...options.headers, Authorization: `Bearer ${bearer}` } as Headers
  }

  /** A context may name no user; the cluster's CA still counts. */
  override getCurrentUser(): KubeUser {
    return (super.getCurrentUser() as KubeUser | null) ?? { name: '' }
  }

  override async applyToHTTPSOptions(options: RequestOptions): Promise<void> {
    await super.applyToHTTPSOptions(options)
    const { impersonation } = this.getCurrentUser()
    if (impersonation !== undefined) options.headers = { ...options.headers, ...impersonation } as Headers
  }

  /** Drops credentials that the server has refused, so that a plugin is called for new ones. */
  forgetCredentials(): void {
    this.#execCredentials.forget()
  }

  /**
   * Sets a request's headers and dispatcher. The request must use it at once: a replaced pool is closed in a later
   * turn.
   */
  override async applySecurityAuthentication(context: RequestContext): Promise<void> {
    const number = ++this.#requests
    let material = ''
    let pool: Pool | undefined
    // Many requests run here at once, each with its own reading of the files. What one finds out must stay with it.
    const ofThisRequest: KubeConfig = Object.create(this, {
      createDispatcherOptions: {
        value: (cluster: Cluster | null, agentOptions: AgentOptions): DispatcherOptions => {
          material = joinMaterial(cluster, agentOptions)
          pool = this.#poolFor(material, number)
          // The pool will do, so nothing has to be built.
          return pool ? { type: 'none' } : this.createDispatcherOptions(cluster, agentOptions)
        },
      },
    })
    await super.applySecurityAuthentication.call(ofThisRequest, context)
    // The client would join the values of a header with several values.
    for (const [header, value] of Object.entries(this.getCurrentUser().impersonation ?? {}))
      context.setHeaderParam(header, value as string)
    const fresh = context.getDispatcher()
    pool ??= this.#poolFor(material, number)
    if (pool) {
      context.setDispatcher(pool.dispatcher)
      // Two simultaneous first requests build one each.
      fresh?.destroy().catch(() => {
        // Nothing was sent on it.
      })
    } else if (fresh) this.#replace({ dispatcher: fresh, material, since: number })
  }

  /** Returns the pool if a request may use it: it has the same material, or material that a later request has read. */
  #poolFor(material: string, number: number): Pool | undefined {
    return this.#pool && (this.#pool.material === material || this.#pool.since > number) ? this.#pool : undefined
  }

  #replace(pool: Pool): void {
    const outdated = this.#pool?.dispatcher
    this.#pool = pool
    // Running requests end on the old pool, and requests that got it in this turn begin there.
    setImmediate(() =>
      outdated?.close().catch(() => {
        // The callers get their errors, and nobody waits for the pool itself.
      }),
    )
  }

  async closePool(): Promise<void> {
    const pool = this.#pool
    this.#pool = undefined
    await pool?.dispatcher.destroy()
  }
}

const joinMaterial = (cluster: Cluster | null, { ca, cert, key }: AgentOptions): string =>
  [cluster?.server, ca, cert, key].map(String).join('\n')

/** Returns the cluster information for a plugin (ExecCredential, `spec.cluster`). */
function formatClusterInfo(cluster: KubeCluster | null): object {
  const { server, tlsServerName, skipTLSVerify, caData, caFile, proxyUrl, execConfig } = cluster ?? { server: '' }
  const ca = caFile === undefined ? caData : readFileSync(caFile).toString('base64')
  return {
    server,
    ...(tlsServerName !== undefined && { 'tls-server-name': tlsServerName }),
    ...(skipTLSVerify && server.startsWith('https:') && { 'insecure-skip-tls-verify': true }),
    ...(ca !== undefined && { 'certificate-authority-data': ca }),
    ...(proxyUrl !== undefined && { 'proxy-url': proxyUrl }),
    ...(execConfig !== undefined && { config: execConfig }),
  }
}

/** Reads a token file. Called for each request, because tokens of pods rotate. A missing or empty one means `spare`. */
function tokenIn(file: string, spare: string | undefined): string {
  if (spare !== undefined && !existsSync(file)) return spare
  const token = readFileSync(file, 'utf8').trim() || spare
  if (token === undefined || token === '') throw new Error(`the token file ${file} is empty`)
  return token
}

interface LoadOptions {
  /** The context to use; absent: the current one. The caller must check that it exists. */
  readonly context?: string | undefined
  /** Called with a text for each part that is left out. */
  readonly tell?: (text: string) => void
}

/**
 * Reads the kubeconfig from a file, or from kubectl's defaults: KUBECONFIG, the home folder, the pod's service account.
 * Throws an Error that names what is missing.
 */
export function loadKubeConfig(file?: string, { context, tell }: LoadOptions = {}): PooledKubeConfig {
  const config = new PooledKubeConfig()
  const files = file ? [file] : listDefaultFiles()
  const onMissing = (missing: string) => tell?.(`KUBECONFIG names ${missing}, which does not exist: it is ignored`)
  const { clusters, users, contexts, currentContext } = readKubeConfigs({ files, ...(!file && { onMissing }) })
  config.loadFromOptions({ clusters, users, contexts, currentContext: context ?? currentContext })
  if (!file && contexts.length === 0 && existsSync(SERVICE_ACCOUNT_TOKEN)) config.loadFromCluster()
  const isThere = context === undefined || config.getContextObject(context) !== null
  if (isThere && !config.getCurrentCluster()?.server) {
    throw new Error(`there is no cluster: ${file ?? 'the default kubeconfig'} names none; give --kubeconfig FILE`)
  }
  const problem = isThere ? findProblem(config) : undefined
  if (problem !== undefined) throw new Error(`${file ?? 'the default kubeconfig'}: ${problem}`)
  // kubectl sends no credential of a kubeconfig to a server without TLS.
  if (contexts.length > 0 && isPlain(config.getCurrentCluster())) config.users = config.users.map(withoutCredential)
  return config
}

const withoutCredential = ({ name, impersonation }: KubeUser): KubeUser => ({
  name,
  ...(impersonation === undefined ? {} : { impersonation }),
})

/** Returns the reason why a context can't be used, as kubectl finds it; undefined if there is none. */
function findProblem(config: KubeConfig): string | undefined {
  const { user: name = '', name: context = '' } = config.getContextObject(config.getCurrentContext()) ?? {}
  const user: KubeUser | null = config.getUser(name)
  if (user === null && name !== '') return `the context ${context} names the user ${name}, who is not there`
  return findClusterProblem(config.getCurrentCluster()) ?? (user === null ? undefined : findUserProblem(user))
}

function findClusterProblem(cluster: KubeCluster | null): string | undefined {
  const hasAuthority = (cluster?.caData ?? cluster?.caFile) !== undefined
  return hasAuthority && cluster?.skipTLSVerify === true && !isPlain(cluster)
    ? 'the cluster has a certificate authority and insecure-skip-tls-verify: remove one'
    : undefined
}

function findUserProblem({ name, token, tokenFile, username, password, ...user }: KubeUser): string | undefined {
  if ((token ?? tokenFile) !== undefined && (username ?? password) !== undefined)
    return `the user ${name} has a token and a password: remove one`
  const hasCertificate = (user.certData ?? user.certFile) !== undefined
  const hasKey = (user.keyData ?? user.keyFile) !== undefined
  return hasCertificate === hasKey ? undefined : `the user ${name} has a client certificate or a key without the other`
}

/** Tells whether a cluster is reached without TLS. */
const isPlain = (cluster: Cluster | null): boolean => cluster?.server.startsWith('http:') === true

const SERVICE_ACCOUNT_TOKEN = '/var/run/secrets/kubernetes.io/serviceaccount/token'

function listDefaultFiles(): readonly string[] {
  const listed = (process.env['KUBECONFIG'] ?? '').split(delimiter).filter((name) => name !== '')
  if (listed.length > 0) return listed
  const own = join(homedir(), '.kube', 'config')
  return existsSync(own) ? [own] : []
}
