import { isObject } from '../../../crds/shared/json.ts'
import type { Reachable } from './client-setup.ts'

/** What a page shows of a server document. */
export interface ShownServer {
  readonly server: Reachable
  readonly title: string | undefined
  readonly description: string | undefined
  /** How it is reached: `remote`, or the kinds of its packages. */
  readonly ways: readonly string[]
  /** http and https only. */
  readonly websiteUrl: string | undefined
  readonly repositoryUrl: string | undefined
}

/** Reads a stored document. Its parts were checked when it came in; texts are escaped where they are shown. */
export function documentOf(text: string): ShownServer {
  const server = JSON.parse(text) as Reachable & Record<string, unknown>
  const { remotes = [], packages = [] } = server
  const kinds = packages.map(({ registryType }) => registryType).filter((kind) => typeof kind === 'string') as string[]
  return {
    server,
    title: textOf(server['title']),
    description: textOf(server['description']),
    ways: [...new Set([...(remotes.length > 0 ? ['remote'] : []), ...kinds])].slice(0, 4),
    websiteUrl: webUrl(server['websiteUrl']),
    repositoryUrl: isObject(server['repository']) ? webUrl(server['repository']['url']) : undefined,
  }
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

/** A `javascript:` link would be refused by the page's policy; here it isn't even written. */
function webUrl(value: unknown): string | undefined {
  return typeof value === 'string' && /^https?:$/.test(URL.parse(value)?.protocol ?? '') ? value : undefined
}
