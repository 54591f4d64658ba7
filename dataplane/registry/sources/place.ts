import { resolve } from 'node:path'
import { parseDuration } from '../../../crds/shared/duration.ts'
import { DEFAULT_INTERVAL, type SourceConfig } from '../../config/registry.ts'
import type { ScheduledSource } from './schedule.ts'
import type { Place } from './source.ts'

const FILE_TIMEOUT = '30s'
const API_TIMEOUT = '10s'
const REGISTRY_FILE = 'registry.json'

export interface PlaceOptions {
  /** What relative paths are relative to. */
  readonly directory: string
  /** Whether the source is held to public addresses. */
  readonly publicOnly: boolean
}

/** The schedule of a source; undefined where there is nothing to sync: a managed one. */
export function scheduleOf(source: SourceConfig, options: PlaceOptions): ScheduledSource | undefined {
  const place = placeOf(source, options)
  if (place === undefined) return undefined
  const { name, syncPolicy, filter } = source
  return { name, place, intervalMs: parseDuration(syncPolicy?.interval ?? DEFAULT_INTERVAL), filter }
}

function placeOf({ git, api, file }: SourceConfig, { directory, publicOnly }: PlaceOptions): Place | undefined {
  if (git !== undefined) {
    const { repository, branch, tag, commit, path = REGISTRY_FILE, auth } = git
    return {
      kind: 'git',
      repository,
      ...(commit === undefined ? { ref: refOf(branch, tag) } : { commit }),
      path,
      publicOnly,
      ...(auth && { auth: { ...auth, passwordFile: resolve(directory, auth.passwordFile) } }),
    }
  }
  if (api !== undefined) {
    const { endpoint, timeout = API_TIMEOUT, headersFile } = api
    return {
      kind: 'api',
      endpoint,
      timeoutMs: parseDuration(timeout),
      publicOnly,
      ...(headersFile !== undefined && { headersFile: resolve(directory, headersFile) }),
    }
  }
  if (file?.path !== undefined) return { kind: 'file', path: resolve(directory, file.path) }
  if (file?.url !== undefined)
    return { kind: 'url', url: file.url, timeoutMs: parseDuration(file.timeout ?? FILE_TIMEOUT), publicOnly }
  if (file?.data !== undefined) return { kind: 'inline', text: file.data }
  return undefined
}

function refOf(branch: string | undefined, tag: string | undefined): string {
  if (branch !== undefined) return `refs/heads/${branch}`
  return tag === undefined ? 'HEAD' : `refs/tags/${tag}`
}
