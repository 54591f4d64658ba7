import { parseDuration } from '../../../crds/settings/duration.ts'
import { compileGlob } from '../glob.ts'
import type { Finding } from '../load.ts'
import { DEFAULT_INTERVAL, SOURCE_KINDS, type SourceConfig } from '../registry.ts'
import { duplicates } from './lists.ts'
import { apiServerProblem } from './token-path.ts'
import { urlFindings } from './url.ts'

const SMALLEST_INTERVAL_MS = 1000

/** Checks the rules of a source that its schema can't express, for the configuration file and the admin API alike. */
export function sourceFindings(source: Omit<SourceConfig, 'name'>, at: string): readonly Finding[] {
  const { git, api, file, kubernetes, syncPolicy, filter } = source
  const kinds = SOURCE_KINDS.filter((kind) => source[kind] !== undefined)
  const [kind] = kinds
  return [
    ...(kinds.length === 1 ? [] : [{ pointer: at, message: `must have exactly one of ${SOURCE_KINDS.join(', ')}` }]),
    ...(syncPolicy !== undefined && (kind === 'managed' || kind === 'kubernetes')
      ? [{ pointer: `${at}/syncPolicy`, message: 'is not for managed and kubernetes sources' }]
      : []),
    ...(syncPolicy !== undefined && parseDuration(syncPolicy.interval ?? DEFAULT_INTERVAL) < SMALLEST_INTERVAL_MS
      ? [{ pointer: `${at}/syncPolicy/interval`, message: 'must be at least 1s' }]
      : []),
    ...(git === undefined ? [] : gitFindings(git, `${at}/git`)),
    ...(api === undefined ? [] : apiFindings(api, `${at}/api`)),
    ...(file === undefined ? [] : fileFindings(file, `${at}/file`)),
    ...(kubernetes?.apiServer === undefined
      ? []
      : apiServerFindings(kubernetes.apiServer.url, `${at}/kubernetes/apiServer/url`)),
    ...globFindings(filter?.names?.include, `${at}/filter/names/include`),
    ...globFindings(filter?.names?.exclude, `${at}/filter/names/exclude`),
  ]
}

/** Lists the URLs that a source names, with their pointers. */
export function listUrls({ git, api, file }: Omit<SourceConfig, 'name'>): readonly (readonly [string, string])[] {
  const urls = [
    [git?.repository, '/git/repository'],
    [api?.endpoint, '/api/endpoint'],
    [file?.url, '/file/url'],
  ] as const
  return urls.flatMap(([url, pointer]) => (url === undefined ? [] : [[url, pointer] as const]))
}

/** Checks a URL that gets the pod's token: the token goes to the API server of its own cluster only. */
function apiServerFindings(url: string, pointer: string): readonly Finding[] {
  const message = apiServerProblem(url)
  return [...urlFindings(url, pointer), ...(message === undefined ? [] : [{ pointer, message }])]
}

/** Checks an API source. Header names are compared without case (RFC 9110, section 5.1). */
const apiFindings = ({ endpoint, headers = [] }: NonNullable<SourceConfig['api']>, at: string): readonly Finding[] => [
  ...urlFindings(endpoint, `${at}/endpoint`),
  ...duplicates(headers, ({ name }) => name.toLowerCase(), `${at}/headers`, '/name'),
]

function gitFindings(
  { repository, branch, tag, commit, auth }: NonNullable<SourceConfig['git']>,
  at: string,
): readonly Finding[] {
  const named = [branch, tag, commit].filter((name) => name !== undefined)
  const isFile = /^file:/i.test(repository)
  return [
    ...(named.length > 1 ? [{ pointer: at, message: 'must have at most one of branch, tag and commit' }] : []),
    ...(isFile || /^https?:/i.test(repository)
      ? urlFindings(repository, `${at}/repository`)
      : [{ pointer: `${at}/repository`, message: 'must be an http, https or file URL' }]),
    ...(isFile && auth !== undefined ? [{ pointer: `${at}/auth`, message: 'is for http and https' }] : []),
  ]
}

function fileFindings({ path, url, data, timeout }: NonNullable<SourceConfig['file']>, at: string): readonly Finding[] {
  const places = [path, url, data].filter((place) => place !== undefined)
  return [
    ...(places.length === 1 ? [] : [{ pointer: at, message: 'must have exactly one of path, url and data' }]),
    ...(timeout !== undefined && url === undefined ? [{ pointer: `${at}/timeout`, message: 'is for url' }] : []),
    ...(url === undefined ? [] : urlFindings(url, `${at}/url`)),
  ]
}

function globFindings(globs: readonly string[] = [], pointer: string): readonly Finding[] {
  return globs.flatMap((glob, index) => {
    try {
      compileGlob(glob)
      return []
    } catch (error) {
      return [{ pointer: `${pointer}/${index}`, message: (error as TypeError).message }]
    }
  })
}
