import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import type { Context } from 'hono'
import type { Logger } from 'pino'
import { DEFAULT_GROUP } from '../crds/index.ts'
import { ConfigError } from '../dataplane/config/load.ts'
import { hostNames } from '../dataplane/server/hosts.ts'
import { listen } from '../dataplane/server/listen/listen.ts'
import { ApiError, ApiServer } from '../operator/cluster/kubernetes/api-server.ts'
import { PooledKubeConfig } from '../operator/cluster/kubernetes/kube-config.ts'
import { type ConsoleConfig, parseConsole } from './config/console.ts'
import { consoleApp } from './endpoint/app.ts'
import { readAssets } from './endpoint/assets.ts'
import type { Child } from './pages/element.ts'
import { pageText } from './pages/frame.ts'
import { loggedInContent, loggedOutContent, loginContent } from './pages/login.ts'
import { ClusterPlaces, REFUSED } from './places/cluster.ts'
import { PlaceError } from './places/place.ts'
import { Prometheus } from './places/prometheus.ts'
import { LoginSessions } from './session/login.ts'
import { OidcClient } from './session/oidc.ts'
import { readKeys, Seal } from './session/seal.ts'

interface PodConsoleOptions {
  readonly configFile: string
  readonly listen: string
  readonly log: (level: ConsoleConfig['logLevel']) => Logger
  readonly environment: Readonly<Record<string, string | undefined>>
}

const CA_FILE = '/etc/portico/ca/ca.crt'

/** Returns the API server's address and CA, from the configuration or else from the usual environment of a pod. */
function findCluster(
  { kubernetes = {} }: ConsoleConfig,
  environment: PodConsoleOptions['environment'],
  directory: string,
) {
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port = '443' } = environment
  const server =
    kubernetes.server ?? (host === undefined ? undefined : `https://${host.includes(':') ? `[${host}]` : host}:${port}`)
  if (server === undefined)
    throw new ConfigError([{ pointer: '/kubernetes/server', message: 'is missing, and this is no pod' }])
  if (!server.startsWith('https:')) return { name: 'cluster', server }
  const caFile = resolve(directory, kubernetes.caFile ?? CA_FILE)
  if (!existsSync(caFile)) throw new ConfigError([{ pointer: '/kubernetes/caFile', message: `${caFile} is not there` }])
  return { name: 'cluster', server, caFile }
}

/**
 * Creates the connections to the API server, which all viewers share: each request carries the token of its viewer. The
 * console has no credential of its own.
 */
function createConnections(cluster: ReturnType<typeof findCluster>): PooledKubeConfig {
  const config = new PooledKubeConfig()
  config.loadFromOptions({
    // The client library requires this for a server on plain http, which is allowed on loopback only and has no TLS to
    // verify.
    clusters: [{ skipTLSVerify: cluster.server.startsWith('http:'), ...cluster }],
    users: [{ name: 'viewer' }],
    contexts: [{ name: 'console', cluster: 'cluster', user: 'viewer' }],
    currentContext: 'console',
  })
  return config
}

/** Returns the user name of a token's owner (SelfSubjectReview, authentication.k8s.io/v1). Throws a PlaceError. */
async function whoIs(api: ApiServer, refusal: string): Promise<string> {
  try {
    const body = { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' }
    const path = '/apis/authentication.k8s.io/v1/selfsubjectreviews'
    const { status } = await api.request<{ status?: { userInfo?: { username?: string } } }>('POST', path, { body })
    return status?.userInfo?.username ?? 'somebody'
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) throw new PlaceError('refused', refusal)
    throw new PlaceError('away', `the API server can’t be reached: ${(error as Error).message}`)
  }
}

function explainRefusal({ login }: ConsoleConfig): string {
  if (login.oidc === undefined) return REFUSED
  const { issuerUrl, clientId } = login.oidc
  return `the cluster does not accept tokens of ${issuerUrl} for ${clientId}: compare the API server’s --oidc-issuer-url and --oidc-client-id (or its AuthenticationConfiguration) with them`
}

/** Serves the console in a pod. Throws a ConfigError with all findings, or an Error if the address is in use. */
export async function serveConsole({ configFile, listen: address, log: logFor, environment }: PodConsoleOptions) {
  const config = parseConsole(await readFile(configFile, 'utf8'), configFile)
  const directory = dirname(resolve(configFile))
  const inFolder = (file: string) => resolve(directory, file)
  const log = logFor(config.logLevel)
  const connections = createConnections(findCluster(config, environment, directory))
  const apiFor = (token: string | undefined) => new ApiServer(connections, 'portico-console', token)
  const { oidc, proxy } = config.login
  if (config.session.keyFiles.length === 0 && proxy === undefined)
    log.warn('sessions have a key of this process alone: they end with it, and other replicas do not know them')
  const assets = readAssets()
  const page = (c: Context, title: string, content: Child) =>
    c.html(pageText({ title, path: c.req.path, assets, time: '' }, content))
  const own = oidc && {
    ...oidc,
    ...(oidc.clientSecretFile !== undefined && { clientSecretFile: inFolder(oidc.clientSecretFile) }),
    ...(oidc.caBundleFile !== undefined && { caBundleFile: inFolder(oidc.caBundleFile) }),
  }
  const refusal = explainRefusal(config)
  const sessions = new LoginSessions({
    config,
    seal: new Seal(readKeys(config.session.keyFiles.map(inFolder))),
    oidc: own && new OidcClient(own, config.publicUrl),
    whoIs: (token) => whoIs(apiFor(token), refusal),
    pages: {
      tokenForm: (c, to, message) => page(c, 'Log in', loginContent(to, message)),
      loggedIn: (c, to) => page(c, 'Logged in', loggedInContent(to)),
      loggedOut: (c) => page(c, 'Logged out', loggedOutContent(config.login.oidc?.issuerUrl)),
    },
  })
  const places = new ClusterPlaces({
    title: 'cluster',
    group: config.apiGroup ?? DEFAULT_GROUP,
    namespaces: config.namespaces,
    apiFor: ({ token }) => apiFor(token),
    reach: 'address',
    close: () => connections.closePool(),
  })
  const { metrics } = config
  const prometheus =
    metrics &&
    new Prometheus({
      ...metrics,
      bearerTokenFile: metrics.bearerTokenFile && inFolder(metrics.bearerTokenFile),
      caBundleFile: metrics.caBundleFile && inFolder(metrics.caBundleFile),
    })
  const names = hostNames([config.publicUrl], config.allowedHosts)
  const app = consoleApp({ places, sessions, names, origin: new URL(config.publicUrl).origin, log, prometheus })
  const listener = await listen(app.fetch, address)
  log.info({ url: listener.url }, 'the console serves')
  return {
    url: listener.url,
    async close() {
      await listener.close()
      await places.close()
    },
  }
}
