import { LRUCache } from 'lru-cache'
import { completed, type KindDeclaration, kinds, VERSION } from '../../crds/index.ts'
import { isObject } from '../../crds/settings/json.ts'
import { ApiError, type ApiServer, isNotFound } from '../../operator/cluster/kubernetes/api-server.ts'
import { buildPath } from '../../operator/cluster/kubernetes/resource.ts'
import { createWorld, type KubernetesObject, type ObjectIndex } from '../../operator/model/index.ts'
import { serviceName } from '../../operator/render/object/object.ts'
import type { Pod } from '../../operator/runtime/pods/observation.ts'
import { dataPlanePort, PODS } from '../../operator/runtime/pods/read-pod-status.ts'
import { PlaceError, type Places, type Report, type Viewer, type World } from './place.ts'
import { runningPods } from './pods.ts'
import { readJson } from './read-json.ts'
import { type Reservation, SharedObjects, type ViewerEntry, Worlds } from './worlds.ts'

interface ClusterOptions {
  readonly title: string
  readonly group: string
  /** Namespaces to read for a viewer who may not list all; empty if the console has to find them. */
  readonly namespaces: readonly string[]
  /** True to read only these namespaces, even if the viewer may list all. */
  readonly isBound?: boolean
  /** Returns the API server's client with the viewer's own credential. */
  apiFor(viewer: Viewer): ApiServer
  /**
   * `proxy`: pods are asked through the API server. `address`: by their own address, after a check of the viewer's
   * right.
   */
  readonly reach: 'proxy' | 'address'
  /** The most bytes of objects in memory for all viewers together. */
  readonly mostWorldBytes?: number
  close(): Promise<void>
}

/** The cache lifetimes of lists, reports and decisions, in milliseconds. */
const WORLD_MS = 10_000
const REPORT_MS = 10_000
const DECISION_MS = 30_000
const PAGE = 500
/** The most objects of a kind that are read. */
const MOST_OBJECTS = 20_000
/** The most namespaces whose rights are checked for a viewer. */
const MOST_NAMESPACES = 50
const LOG_LINES = 500
/** Bounds of a pod's answer through the API server. Another process than ours may answer. */
const PROXIED_MS = 5_000
const LARGEST_REPORT = 4 * 1024 * 1024
/** The most bytes of cached reports, and the assumed size of a report that has not arrived yet. */
const MOST_REPORT_BYTES = 64 * 1024 * 1024
const REPORT_BYTES = 4_096

interface CachedReports {
  readonly at: number
  readonly reports: Promise<readonly Report[]>
}

/** The result of a list. `forbidden`: the viewer may not list the kind there. `cut`: the list is too long. */
type Listed = 'whole' | 'cut' | 'forbidden'

/** A reading of a viewer's objects. */
interface Reading {
  readonly api: ApiServer
  readonly reservation: Reservation
  /** The objects that were read so far. */
  readonly objects: ObjectIndex
}

const isForbidden = (error: unknown): boolean => error instanceof ApiError && error.status === 403

/** The objects and reports of a cluster, as the API server shows them to the viewer's own credential. */
export class ClusterPlaces implements Places {
  readonly kind = 'cluster'
  readonly title: string
  readonly #options: ClusterOptions
  readonly #worlds: Worlds
  readonly #objects = new SharedObjects()
  readonly #reports = new LRUCache<string, CachedReports>({ max: 2_000, maxSize: MOST_REPORT_BYTES })
  readonly #decisions = new LRUCache<string, Promise<boolean>>({ max: 10_000, ttl: DECISION_MS })

  constructor(options: ClusterOptions) {
    this.#options = options
    this.#worlds = new Worlds(options.mostWorldBytes)
    this.title = options.title
  }

  close = (): Promise<void> => this.#options.close()

  async world(viewer: Viewer): Promise<World> {
    const namespaces = viewer.namespaces?.join(',') ?? ''
    let kept = this.#worlds.get(viewer.id)
    // Each viewer has one world. A viewer who changes namespaces often therefore takes no more memory than others.
    if (kept?.namespaces !== namespaces) kept = this.#worlds.begin(viewer.id, namespaces)
    const { world } = kept
    if (world !== undefined && Date.now() - world.asOf < WORLD_MS) return world
    if (Date.now() < kept.notBefore) {
      const seconds = Math.ceil((kept.notBefore - Date.now()) / 1000)
      if (world !== undefined) return { ...world, stale: `the API server asks to wait ${seconds} s` }
      throw new PlaceError('away', 'the API server asks to wait', seconds)
    }
    kept.reading ??= this.#readInto(kept, viewer)
    return kept.reading
  }

  /** Returns what the viewer has read before, marked as old, while the API server is slow. */
  lastWorld(viewer: Viewer): World | undefined {
    const kept = this.#worlds.get(viewer.id)
    if (kept?.world === undefined || kept.namespaces !== (viewer.namespaces?.join(',') ?? '')) return undefined
    return { ...kept.world, stale: 'the API server is slow to answer' }
  }

  async #readInto(kept: ViewerEntry, viewer: Viewer): Promise<World> {
    const reservation = this.#worlds.reserve()
    try {
      const world = await this.#read(viewer, reservation)
      this.#worlds.keep(viewer.id, kept, { world, bytes: reservation.bytes })
      return world
    } catch (error) {
      const failure = placeError(error)
      if (failure.retryAfter !== undefined) kept.notBefore = Date.now() + failure.retryAfter * 1000
      // The last facts are shown only while the API server is unreachable, not after it has refused the viewer.
      if (failure.kind !== 'away') kept.world = undefined
      if (kept.world === undefined) throw failure
      return { ...kept.world, stale: failure.message }
    } finally {
      reservation.release()
      kept.reading = undefined
    }
  }

  async #read(viewer: Viewer, reservation: Reservation): Promise<World> {
    const { objects } = createWorld()
    const reading = { api: this.#options.apiFor(viewer), reservation, objects }
    const asOf = Date.now()
    const all = Object.values(kinds)
    const isCut = (listed: readonly Listed[]) => listed.includes('cut')
    if (this.#options.isBound !== true) {
      const listed = await Promise.all(all.map((kind) => this.#list(reading, kind)))
      if (listed.some((result) => result !== 'forbidden')) {
        const notReadable = all.flatMap(({ plural }, index) => (listed[index] === 'forbidden' ? [plural] : []))
        return { objects, cut: isCut(listed), asOf, namespaces: [], notReadable }
      }
    }
    const { found, left, needsNamespaces } = await this.#namespacesFor(viewer, reading.api)
    const listed = await Promise.all(found.flatMap((name) => all.map((kind) => this.#list(reading, kind, name))))
    const readable = found.filter((_, index) =>
      listed.slice(index * all.length, (index + 1) * all.length).some((result) => result !== 'forbidden'),
    )
    const notReadable = [...left, ...found.filter((name) => !readable.includes(name))]
    const world = { objects, cut: isCut(listed), asOf, namespaces: readable, notReadable }
    return { ...world, ...(needsNamespaces && { needsNamespaces }) }
  }

  /**
   * Returns the namespaces to read, those that the viewer may not read, and whether the viewer has to name namespaces.
   */
  async #namespacesFor(viewer: Viewer, api: ApiServer) {
    const { namespaces } = this.#options
    if (this.#options.isBound === true) return { found: namespaces, left: [], needsNamespaces: false }
    const listed = await listNamespaces(api)
    if (listed !== undefined) {
      const asked = listed.slice(0, MOST_NAMESPACES)
      const may = await Promise.all(
        asked.map((name) => this.#may(viewer, { verb: 'list', plural: 'virtualmcpservers', namespace: name })),
      )
      return {
        found: asked.filter((_, index) => may[index]),
        left: [...asked.filter((_, index) => !may[index]), ...listed.slice(MOST_NAMESPACES)],
        needsNamespaces: false,
      }
    }
    const named = [...new Set([...namespaces, ...(viewer.namespaces ?? [])])].slice(0, MOST_NAMESPACES)
    return { found: named, left: [], needsNamespaces: named.length === 0 }
  }

  /** Reads the objects of a kind into the index, in pages. The next page is requested before one is processed. */
  async #list(reading: Reading, declaration: KindDeclaration, namespace?: string): Promise<Listed> {
    const { plural, kind } = declaration
    const resource = { group: this.#options.group, version: VERSION, plural, kind }
    const readPage = (token?: string) =>
      reading.api.list(resource, namespace, { query: { limit: PAGE, continue: token } })
    let count = 0
    let isCut = false
    try {
      let page: ReturnType<typeof readPage> | undefined = readPage()
      while (page !== undefined) {
        const { metadata, items }: Awaited<typeof page> = await page
        count += items?.length ?? 0
        isCut = Boolean(metadata.continue) && count >= MOST_OBJECTS
        page = metadata.continue && !isCut ? readPage(metadata.continue) : undefined
        // It is awaited in the next round, unless the viewer's share is used up in this one.
        page?.catch(() => undefined)
        if (!this.#keep(items ?? [], reading, declaration)) return 'cut'
      }
      return isCut ? 'cut' : 'whole'
    } catch (error) {
      if (isForbidden(error)) return 'forbidden'
      if (isNotFound(error)) return 'whole'
      throw error
    }
  }

  /** Puts the objects of a page into the index. Returns false if the viewer's share of memory is used up. */
  #keep(items: readonly KubernetesObject[], { reservation, objects }: Reading, declaration: KindDeclaration): boolean {
    const { kind } = declaration
    const apiVersion = `${this.#options.group}/${VERSION}`
    return items.every((item) => {
      // Viewers share the completed form, which the index keeps.
      const read = { ...item, apiVersion, kind, metadata: stripManagedFields(item.metadata) }
      const object = completed(declaration, read)
      const size = JSON.stringify(object).length
      const fits = reservation.add(size)
      if (fits) objects.put(this.#objects.share(object, size))
      return fits
    })
  }

  /** Tells whether the viewer has a right in a namespace, by a SelfSubjectAccessReview that is cached for 30 s. */
  #may(viewer: Viewer, right: Right): Promise<boolean> {
    const key = `${viewer.id} ${JSON.stringify(right)}`
    let decision = this.#decisions.get(key)
    if (decision === undefined) {
      decision = this.#review(viewer, right)
      this.#decisions.set(key, decision)
      decision.catch(() => this.#decisions.delete(key))
    }
    return decision
  }

  async #review(viewer: Viewer, { plural: resource, ...attributes }: Right): Promise<boolean> {
    const body = {
      apiVersion: 'authorization.k8s.io/v1',
      kind: 'SelfSubjectAccessReview',
      spec: { resourceAttributes: { group: this.#options.group, ...attributes, resource } },
    }
    const path = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews'
    const { status } = await this.#options
      .apiFor(viewer)
      .request<{ status?: { allowed?: boolean } }>('POST', path, { body })
    return status?.allowed === true
  }

  reports(viewer: Viewer, workload: KubernetesObject): Promise<readonly Report[]> {
    const { kind, metadata } = workload
    // If the console asks pods itself, viewers share a report, because the right of each viewer to it was checked
    // before.
    const owner = this.#options.reach === 'address' ? '' : viewer.id
    const key = `${owner} ${kind}/${metadata.namespace}/${metadata.name}`
    const ask = async () => {
      const known = this.#reports.get(key)
      if (known === undefined || performance.now() - known.at >= REPORT_MS) return this.#askAnew(key, viewer, workload)
      try {
        return await known.reports
      } catch {
        // Another viewer may have lacked the right to list the pods, which says nothing about this viewer.
        return this.#askAnew(key, viewer, workload)
      }
    }
    return this.#ifAllowed(viewer, workload, ask)
  }

  /** Asks the pods and caches their answers. Rejects if the viewer can't list the pods; that result is not cached. */
  async #askAnew(key: string, viewer: Viewer, workload: KubernetesObject): Promise<readonly Report[]> {
    const asked = { at: performance.now(), reports: this.#askPods(viewer, workload, '/status') }
    this.#reports.set(key, asked, { size: REPORT_BYTES })
    const isLatest = () => this.#reports.peek(key) === asked
    try {
      const reports = await asked.reports
      if (isLatest()) this.#reports.set(key, asked, { size: REPORT_BYTES + JSON.stringify(reports).length })
      return reports
    } catch (error) {
      if (isLatest()) this.#reports.delete(key)
      throw error
    }
  }

  async #ifAllowed(
    viewer: Viewer,
    workload: KubernetesObject,
    ask: () => Promise<readonly Report[]>,
    virtual: 'live' | 'usage' = 'live',
  ): Promise<readonly Report[]> {
    try {
      const lacking = await this.#lackingRight(viewer, workload, virtual)
      return lacking === undefined ? await ask() : [{ missing: MISSING[virtual], right: lacking }]
    } catch (error) {
      return [{ missing: placeError(error).message }]
    }
  }

  /**
   * Returns the missing right as a `kubectl auth can-i` line if the viewer has neither of the two rights that would do.
   */
  async #lackingRight(
    viewer: Viewer,
    { kind, metadata }: KubernetesObject,
    virtual: 'live' | 'explain' | 'usage',
  ): Promise<string | undefined> {
    if (this.#options.reach === 'proxy') return undefined
    const { plural } = kinds[kind as keyof typeof kinds]
    const { namespace = 'default', name } = metadata
    const verb = virtual === 'explain' ? 'create' : 'get'
    if (await this.#may(viewer, { verb, plural, subresource: virtual, namespace, name })) return undefined
    const forward = { verb: 'create', plural: 'pods', subresource: 'portforward', namespace, group: '' }
    if (virtual === 'live' && (await this.#may(viewer, forward))) return undefined
    return `kubectl auth can-i ${verb} ${plural}.${this.#options.group}/${name} --subresource=${virtual} --namespace ${namespace}`
  }

  async #askPods(viewer: Viewer, workload: KubernetesObject, path: string): Promise<readonly Report[]> {
    const pods = await runningPods({ api: this.#options.apiFor(viewer) }, workload)
    if (pods.length === 0) return [{ missing: 'no pod runs' }]
    return Promise.all(pods.slice(0, 10).map((pod) => this.#askPod(viewer, pod, path)))
  }

  async #askPod(viewer: Viewer, pod: Pod, path: string): Promise<Report> {
    try {
      const status = await this.#requestPod(viewer, pod, path)
      return isObject(status) ? { status } : { missing: 'the pod’s answer is no object' }
    } catch (error) {
      return { missing: `pod ${pod.metadata.name} can’t be asked: ${(error as Error).message}` }
    }
  }

  #requestPod(viewer: Viewer, pod: Pod, path: string, body?: object): Promise<unknown> {
    const port = dataPlanePort(pod, 'admin')
    if (this.#options.reach === 'address') {
      const { podIP = '' } = pod.status ?? {}
      const host = podIP.includes(':') ? `[${podIP}]` : podIP
      return readJson(`http://${host}:${port}${path}`, body === undefined ? {} : { method: 'POST', body })
    }
    const { namespace, name } = pod.metadata
    const proxied = `${buildPath(PODS, namespace, `${name}:${port}`, 'proxy')}${path}`
    const bounds = { timeout: PROXIED_MS, signal: AbortSignal.timeout(2 * PROXIED_MS), mostBytes: LARGEST_REPORT }
    return this.#options.apiFor(viewer).request(body === undefined ? 'GET' : 'POST', proxied, { ...bounds, body })
  }

  async definitions(viewer: Viewer, workload: KubernetesObject): Promise<Report> {
    const [first] = await this.#ifAllowed(viewer, workload, () => this.#askPods(viewer, workload, '/definitions'))
    return first ?? { missing: 'no pod runs' }
  }

  usage(viewer: Viewer, workload: KubernetesObject, query: string, isByPerson: boolean): Promise<readonly Report[]> {
    const ask = () => this.#askPods(viewer, workload, `/usage?${query}`)
    return this.#ifAllowed(viewer, workload, ask, isByPerson ? 'usage' : 'live')
  }

  async missingExplainRight(viewer: Viewer, workload: KubernetesObject): Promise<string | undefined> {
    try {
      return await this.#lackingRight(viewer, workload, 'explain')
    } catch {
      // The question itself then says what is wrong.
      return undefined
    }
  }

  async explain(viewer: Viewer, workload: KubernetesObject, question: object): Promise<unknown> {
    const lacking = await this.#lackingRight(viewer, workload, 'explain')
    if (lacking !== undefined) throw new PlaceError('forbidden', lacking)
    try {
      const [pod] = await runningPods({ api: this.#options.apiFor(viewer) }, workload)
      if (pod === undefined) throw new PlaceError('away', 'no pod runs')
      return await this.#requestPod(viewer, pod, '/explain', question)
    } catch (error) {
      throw error instanceof PlaceError ? error : placeError(error)
    }
  }

  address(_: Viewer, { kind, metadata: { name, namespace } }: KubernetesObject): string | undefined {
    // The DNS names of Services can't be resolved on a laptop.
    if (this.#options.reach === 'proxy') return undefined
    const port = kind === 'MCPRegistry' ? 8080 : 4483
    return `http://${serviceName(kind, name)}.${namespace}.svc:${port}`
  }

  publicUrl({ status }: KubernetesObject): string | undefined {
    const { externalUrl, url } = isObject(status) ? status : {}
    return [externalUrl, url].find((one): one is string => typeof one === 'string' && one !== '')
  }

  async audit(viewer: Viewer, workload: KubernetesObject): Promise<readonly string[] | string> {
    try {
      const api = this.#options.apiFor(viewer)
      const pods = await runningPods({ api }, workload)
      const logs = await Promise.all(pods.slice(0, 5).map((pod) => readLog(api, pod)))
      return logs.flat()
    } catch (error) {
      return placeError(error).message
    }
  }

  fileOf = (): undefined => undefined

  fileProblems = (): readonly [] => []
}

const MISSING = {
  live: 'you may not see the reports of its pods',
  usage: 'you may not see who uses it',
} as const

interface Right {
  readonly verb: string
  readonly plural: string
  readonly subresource?: string
  readonly namespace: string
  readonly name?: string
  readonly group?: string
}

async function readLog(api: ApiServer, pod: Pod): Promise<readonly string[]> {
  const { namespace, name } = pod.metadata
  const container = dataPlaneContainer(pod)
  const answer = await api.open('GET', buildPath(PODS, namespace, name, 'log'), {
    query: { tailLines: LOG_LINES, limitBytes: 1024 * 1024, container },
  })
  const text = await answer.body.text()
  if (answer.statusCode !== 200) throw new ApiError(answer.statusCode, '', `the log of pod ${name} can’t be read`)
  return text.split('\n').filter((line) => line.includes('"audit"'))
}

function dataPlaneContainer(pod: Pod): string | undefined {
  const { containers = [], initContainers = [] } = (pod as KubernetesObject)['spec'] as Partial<
    Record<'containers' | 'initContainers', readonly { readonly name: string }[]>
  >
  return [...initContainers, ...containers].find(({ name }) => name === 'portico' || name === 'vmcp')?.name
}

async function listNamespaces(api: ApiServer): Promise<readonly string[] | undefined> {
  const resource = { group: '', version: 'v1', plural: 'namespaces', kind: 'Namespace' }
  try {
    const { items } = await api.list(resource, undefined, { query: { limit: PAGE } })
    return (items ?? []).map(({ metadata }) => metadata.name)
  } catch (error) {
    if (isForbidden(error)) return undefined
    throw error
  }
}

/**
 * Keeps the names of field managers, which reveal the tool that manages an object, and drops their long lists of
 * fields.
 */
function stripManagedFields(metadata: KubernetesObject['metadata']): KubernetesObject['metadata'] {
  const { managedFields, ...rest } = metadata as { managedFields?: readonly { readonly manager?: string }[] }
  const managers = [...new Set((managedFields ?? []).flatMap(({ manager }) => manager ?? []))]
  return { ...rest, managers } as unknown as KubernetesObject['metadata']
}

export const REFUSED = 'the API server answers 401: the token has ended, or is not for this cluster'

/** Converts any failure to a PlaceError with a text for the viewer. */
function placeError(error: unknown): PlaceError {
  if (error instanceof PlaceError) return error
  if (!(error instanceof ApiError))
    return new PlaceError('away', `the API server can’t be reached: ${(error as Error).message}`)
  if (error.status === 401) return new PlaceError('refused', REFUSED)
  if (error.status === 403) return new PlaceError('forbidden', error.message)
  return new PlaceError('away', `the API server answers ${error.status}: ${error.message}`, error.retryAfter)
}
