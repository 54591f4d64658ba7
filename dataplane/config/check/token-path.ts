import { posix } from 'node:path'
import { API_SERVER } from '../../../crds/settings/gateway/defaults.ts'
import type { Finding } from '../load.ts'
import { isLoopback } from './url.ts'

/**
 * The folder of tokens for an issuer's key endpoint. Otherwise anyone who may write a configuration could send any file
 * of the pod anywhere.
 */
export const JWKS_TOKENS = '/var/run/secrets/portico/jwks'

/** The path at which Kubernetes mounts the token of a pod's ServiceAccount. */
export const SERVICE_ACCOUNT_TOKEN = '/var/run/secrets/kubernetes.io/serviceaccount/token'

/** The path at which Kubernetes mounts the CA of the cluster's API server. */
export const SERVICE_ACCOUNT_CA = '/var/run/secrets/kubernetes.io/serviceaccount/ca.crt'

const API_SERVERS: ReadonlySet<string> = new Set([API_SERVER, `${API_SERVER}.cluster.local`])

/** Tells whether a URL leads to the cluster's own API server by a full name, over https on its usual port. */
export const isApiServer = (url: URL): boolean => API_SERVERS.has(url.origin)

/** Returns why the pod's token is not sent to a URL; undefined for an API server of the cluster or this machine. */
export function apiServerProblem(text: string): string | undefined {
  const url = URL.parse(text)
  if (url === null || isApiServer(url) || isLoopback(url)) return undefined
  return `must be the cluster’s own, ${[...API_SERVERS].join(' or ')}`
}

/** Tells whether a path names a file below the folder for tokens, in the one form that has no other reading. */
export const isMountedToken = (path: string): boolean =>
  path.startsWith(`${JWKS_TOKENS}/`) && posix.normalize(path) === path && !path.endsWith('/') && !path.includes('\0')

interface Settings {
  readonly issuer?: string
  readonly jwksUrl?: string
  readonly bearerTokenFile?: string
  readonly cluster?: { readonly apiServer?: string }
  readonly serviceAccount?: object
  readonly introspection?: { readonly clientId?: string; readonly clientSecretFile?: string; readonly url?: string }
}

/** Checks which credential may go to which endpoint; see the table in docs/operator.md. */
export function tokenFindings(settings: Settings, at: string): readonly Finding[] {
  const { issuer, bearerTokenFile, cluster, serviceAccount } = settings
  const findings: Finding[] = []
  const find = (field: string, message: string) => findings.push({ pointer: `${at}/${field}`, message })
  if (issuer === undefined && cluster === undefined) find('issuer', 'is required without cluster')
  if (bearerTokenFile !== undefined && !isMountedToken(bearerTokenFile))
    find('bearerTokenFile', `must be a file below ${JWKS_TOKENS}, by its plain path`)
  if (bearerTokenFile !== undefined && cluster !== undefined) find('bearerTokenFile', 'must be left out with cluster')
  if (serviceAccount !== undefined && cluster === undefined && issuer === undefined)
    find('serviceAccount', 'needs issuer or cluster')
  checkIntrospection(settings, find)
  checkCluster(settings, find)
  return findings
}

type Find = (field: string, message: string) => void

function checkIntrospection({ issuer, introspection }: Settings, find: Find): void {
  if (introspection === undefined) return
  const { clientId, clientSecretFile, url } = introspection
  if ((clientId === undefined) !== (clientSecretFile === undefined))
    find('introspection', 'must have both of clientId and clientSecretFile, or neither')
  if (clientId === undefined && url === undefined) find('introspection/url', 'is required without a client')
  if (issuer === undefined && url === undefined) find('introspection/url', 'is required without issuer')
}

function checkCluster({ cluster, jwksUrl }: Settings, find: Find): void {
  const server = cluster && URL.parse(cluster.apiServer ?? API_SERVER)
  const problem = server && apiServerProblem(server.href)
  if (problem) find('cluster/apiServer', problem)
  if (server && jwksUrl !== undefined && URL.parse(jwksUrl)?.origin !== server.origin)
    find('jwksUrl', 'must be at cluster/apiServer: the token for it goes nowhere else')
}
