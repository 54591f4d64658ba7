import { resolve } from 'node:path'
import { parseDuration, parseTimer } from '../../../crds/settings/duration.ts'
import { API_SERVER, SERVICE_ACCOUNT_TOKEN } from '../../config/check/token-path.ts'
import { API_TIMEOUT, DEFAULT_INTERVAL, FILE_TIMEOUT, REGISTRY_FILE, type SourceConfig } from '../../config/registry.ts'
import type { SourceLocation } from '../sources/format/source.ts'
import type { ScheduledSource } from './schedule.ts'

const API_GROUP = 'portico.dev'
/** The location of a pod's API server, its token and the cluster's CA. */
const IN_CLUSTER = {
  url: API_SERVER,
  tokenFile: SERVICE_ACCOUNT_TOKEN,
  caFile: '/var/run/secrets/kubernetes.io/serviceaccount/ca.crt',
}
/** A cluster is watched; this interval catches what a watch has missed. */
const CLUSTER_INTERVAL = '5m'

interface LocationOptions {
  readonly directory: string
  readonly publicOnly: boolean
  readonly sourceBytes: number
}

/** Returns the schedule of a source; undefined for a managed one, which is not synced. */
export function buildSchedule(source: SourceConfig, options: LocationOptions): ScheduledSource | undefined {
  const location = resolveLocation(source, options)
  if (location === undefined) return undefined
  const { name, syncPolicy, filter } = source
  const interval = syncPolicy?.interval ?? (location.kind === 'kubernetes' ? CLUSTER_INTERVAL : DEFAULT_INTERVAL)
  return { name, location, intervalMs: parseDuration(interval), filter, maxBytes: options.sourceBytes }
}

function resolveLocation(
  { git, api, file, kubernetes }: SourceConfig,
  { directory, publicOnly }: LocationOptions,
): SourceLocation | undefined {
  if (git !== undefined) {
    const { repository, branch, tag, commit, path = REGISTRY_FILE, auth } = git
    return {
      kind: 'git',
      repository,
      ...(commit === undefined ? { ref: buildRef(branch, tag) } : { commit }),
      path,
      publicOnly,
      ...(auth && { auth: { ...auth, passwordFile: resolve(directory, auth.passwordFile) } }),
    }
  }
  if (api !== undefined) {
    const { endpoint, timeout = API_TIMEOUT, headersFile, headers } = api
    return {
      kind: 'api',
      endpoint,
      timeoutMs: parseTimer(timeout),
      publicOnly,
      ...(headersFile !== undefined && { headersFile: resolve(directory, headersFile) }),
      ...(headers && {
        headers: headers.map(({ name, valueFile }) => ({ name, valueFile: resolve(directory, valueFile) })),
      }),
    }
  }
  if (file?.path !== undefined) return { kind: 'file', path: resolve(directory, file.path) }
  if (file?.url !== undefined)
    return { kind: 'url', url: file.url, timeoutMs: parseTimer(file.timeout ?? FILE_TIMEOUT), publicOnly }
  if (file?.data !== undefined) return { kind: 'inline', text: file.data }
  if (kubernetes !== undefined) {
    const { apiServer, group = API_GROUP, namespaces } = kubernetes
    const { url, tokenFile, caFile } = apiServer ?? IN_CLUSTER
    return {
      kind: 'kubernetes',
      group,
      namespaces,
      server: url,
      tokenFile: resolve(directory, tokenFile),
      caFile: resolve(directory, caFile),
    }
  }
  return undefined
}

function buildRef(branch: string | undefined, tag: string | undefined): string {
  if (branch !== undefined) return `refs/heads/${branch}`
  return tag === undefined ? 'HEAD' : `refs/tags/${tag}`
}
