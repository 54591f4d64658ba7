import { parseDuration } from '../../../crds/settings/duration.ts'
import type { Finding, Findings } from '../load.ts'
import { DEFAULT_INTERVAL, SOURCE_KINDS, type SourceConfig } from '../registry.ts'
import { duplicates, globFindings } from './lists.ts'
import { apiServerProblem } from './token-path.ts'
import { urlFindings } from './url.ts'

const SMALLEST_INTERVAL_MS = 1000

type Source = Omit<SourceConfig, 'name'>

/** Checks the rules of a source that its schema can't express, for the configuration file and the admin API alike. */
export const sourceFindings = (source: Source, at: string): readonly Finding[] => [...findingsOf(source, at)]

function* findingsOf(source: Source, at: string): Findings {
  const { git, api, file, kubernetes, syncPolicy, filter } = source
  const [kind, ...more] = SOURCE_KINDS.filter((kind) => source[kind] !== undefined)
  if (kind === undefined || more.length > 0)
    yield { pointer: at, message: `must have exactly one of ${SOURCE_KINDS.join(', ')}` }
  if (syncPolicy !== undefined && (kind === 'managed' || kind === 'kubernetes'))
    yield { pointer: `${at}/syncPolicy`, message: 'is not for managed and kubernetes sources' }
  if (syncPolicy !== undefined && parseDuration(syncPolicy.interval ?? DEFAULT_INTERVAL) < SMALLEST_INTERVAL_MS)
    yield { pointer: `${at}/syncPolicy/interval`, message: 'must be at least 1s' }
  if (git !== undefined) yield* gitFindings(git, `${at}/git`)
  if (api !== undefined) yield* apiFindings(api, `${at}/api`)
  if (file !== undefined) yield* fileFindings(file, `${at}/file`)
  if (kubernetes?.apiServer !== undefined)
    yield* apiServerFindings(kubernetes.apiServer.url, `${at}/kubernetes/apiServer/url`)
  yield* globFindings(filter?.names?.include, `${at}/filter/names/include`)
  yield* globFindings(filter?.names?.exclude, `${at}/filter/names/exclude`)
}

/** Lists the URLs that a source names, with their pointers. */
export function listUrls({ git, api, file }: Source): readonly (readonly [string, string])[] {
  const urls = [
    [git?.repository, '/git/repository'],
    [api?.endpoint, '/api/endpoint'],
    [file?.url, '/file/url'],
  ] as const
  return urls.flatMap(([url, pointer]) => (url === undefined ? [] : [[url, pointer] as const]))
}

/** Checks a URL that gets the pod's token: the token goes to the API server of its own cluster only. */
function* apiServerFindings(url: string, pointer: string): Findings {
  const message = apiServerProblem(url)
  yield* urlFindings(url, pointer)
  if (message !== undefined) yield { pointer, message }
}

/** Checks an API source. Header names are compared without case (RFC 9110, section 5.1). */
function* apiFindings({ endpoint, headers = [] }: NonNullable<SourceConfig['api']>, at: string): Findings {
  yield* urlFindings(endpoint, `${at}/endpoint`)
  yield* duplicates(headers, ({ name }) => name.toLowerCase(), `${at}/headers`, '/name')
}

function* gitFindings(
  { repository, branch, tag, commit, auth }: NonNullable<SourceConfig['git']>,
  at: string,
): Findings {
  const named = [branch, tag, commit].filter((name) => name !== undefined)
  const isFile = /^file:/i.test(repository)
  if (named.length > 1) yield { pointer: at, message: 'must have at most one of branch, tag and commit' }
  if (isFile || /^https?:/i.test(repository)) yield* urlFindings(repository, `${at}/repository`)
  else yield { pointer: `${at}/repository`, message: 'must be an http, https or file URL' }
  if (isFile && auth !== undefined) yield { pointer: `${at}/auth`, message: 'is for http and https' }
}

function* fileFindings({ path, url, data, timeout }: NonNullable<SourceConfig['file']>, at: string): Findings {
  const places = [path, url, data].filter((place) => place !== undefined)
  if (places.length !== 1) yield { pointer: at, message: 'must have exactly one of path, url and data' }
  if (timeout !== undefined && url === undefined) yield { pointer: `${at}/timeout`, message: 'is for url' }
  if (url !== undefined) yield* urlFindings(url, `${at}/url`)
}
