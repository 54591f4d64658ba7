import { isObject } from '../../crds/settings/json.ts'
import { fillWorld, type KubernetesObject } from '../../operator/model/index.ts'
import { formatKey, identify, type ObjectId } from './object-id.ts'
import { type FileProblem, PlaceError, type Places, type Report, type World } from './place.ts'
import { readJson } from './read-json.ts'

/** The objects and processes of `portico run`. */
export interface LocalSource {
  /** Returns the objects, with the status that an operator would write, and the file of each. */
  objects(): readonly { readonly object: KubernetesObject; readonly file: string }[]
  /** Lists the problems of the files; absent: there are none. */
  fileProblems?(): readonly FileProblem[]
  endpoints(): readonly (ObjectId & { readonly url: string; readonly admin: string })[]
  /** The latest audit lines of a workload's data plane. */
  auditLines(id: ObjectId): readonly string[]
}

/** The cache lifetime of reports, in milliseconds. It is short because the data planes are on this machine. */
const KEPT_MS = 1_000

/** Returns the place of `portico run`: its manifests, and the processes that it has started. */
export function machinePlaces(source: LocalSource, title: string): Places {
  const kept = new Map<string, { readonly at: number; readonly report: Promise<Report> }>()
  const findEndpoint = (object: KubernetesObject) => {
    const key = formatKey(identify(object))
    return source.endpoints().find((endpoint) => formatKey(endpoint) === key)
  }
  const ask = async (object: KubernetesObject, path: string): Promise<Report> => {
    const endpoint = findEndpoint(object)
    if (endpoint === undefined) return { missing: 'it does not run' }
    try {
      const status = await readJson(`${endpoint.admin}${path}`)
      return isObject(status) ? { status } : { missing: 'its answer is no object' }
    } catch (error) {
      return { missing: (error as Error).message }
    }
  }
  const askPlane = (object: KubernetesObject, path: string): Promise<Report> => {
    const key = `${formatKey(identify(object))}${path}`
    const now = performance.now()
    for (const [old, { at }] of kept) if (now - at > KEPT_MS) kept.delete(old)
    const known = kept.get(key)
    if (known) return known.report
    const report = ask(object, path)
    kept.set(key, { at: now, report })
    return report
  }
  return {
    kind: 'machine',
    title,
    async world(): Promise<World> {
      const { objects } = fillWorld({ objects: source.objects().map(({ object }) => object) })
      return { objects, namespaces: [], notReadable: [], asOf: Date.now(), cut: false }
    },
    lastWorld: () => undefined,
    reports: async (_, workload) => [await askPlane(workload, '/status')],
    definitions: (_, workload) => askPlane(workload, '/definitions'),
    usage: async (_, workload, query) => [await askPlane(workload, `/usage?${query}`)],
    missingExplainRight: async () => undefined,
    async explain(_, workload, question) {
      const endpoint = findEndpoint(workload)
      if (endpoint === undefined) throw new PlaceError('away', 'it does not run')
      try {
        return await readJson(`${endpoint.admin}/explain`, { method: 'POST', body: question, timeoutMs: 30_000 })
      } catch (error) {
        throw new PlaceError('away', (error as Error).message)
      }
    },
    address: (_, workload) => findEndpoint(workload)?.url.replace(/\/mcp$/, ''),
    publicUrl: (workload) => findEndpoint(workload)?.url,
    audit: async (_, workload) => source.auditLines(identify(workload)),
    fileOf: (object) => {
      const key = formatKey(identify(object))
      return source.objects().find((one) => formatKey(identify(one.object)) === key)?.file
    },
    fileProblems: () => source.fileProblems?.() ?? [],
    close: async () => undefined,
  }
}
