import { randomBytes } from 'node:crypto'
import { rmSync } from 'node:fs'
import { delimiter, dirname, join, resolve } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { type Manifest, type ObjectId, objectKey, type Planned, planManifests } from '../cluster/files/index.ts'
import type { KubernetesObject } from '../model/view.ts'
import type { ServerCommand } from '../reconcile/outcome/plan.ts'
import { hashRevision } from '../render/object/canonical.ts'
import { ManifestFeed } from './manifest-feed.ts'
import { collectSources, findPod, listServices, PodProblem } from './pod/pod.ts'
import { PodSet } from './pod/running-pod.ts'
import { StatusPoller } from './pod/status-poller.ts'
import { buildLocalPod, formatFolderName, formatTitle, type LocalCommand } from './pod/workload.ts'
import { LocalPorts } from './ports/local-ports.ts'
import { StateDirectory } from './ports/state.ts'
import { redactor } from './process/lines.ts'
import { buildReport, convertFinding, type Endpoint, type Problem, type Report } from './report.ts'

/** Milliseconds after which a set that has not settled is reported as it is. */
const SETTLE_LIMIT_MS = 10_000
/** An address where nothing answers, for Services of workloads that don't run. */
const UNREACHABLE = 'http://127.0.0.1:9'

interface StandaloneOptions {
  /** Files and folders of manifests. */
  readonly paths: readonly string[]
  /** The folder for everything that is written. */
  readonly state: string
  /** The address of the listeners that people use. */
  readonly host: string
  readonly group: string | undefined
  /** Changes the valid manifests before they are used. Absent: none is changed. */
  readonly edit?: (manifests: readonly Manifest[], group: string) => readonly Manifest[]
  /** The limit for a `podTemplateSpec`, as in a cluster. */
  readonly podTemplate?: 'baseline' | 'any'
  /** The command line that runs Portico itself. */
  readonly self: readonly string[]
  readonly environment: Readonly<Record<string, string | undefined>>
  /** Called when the set is ready and whenever it has changed; `changes` describes the changes for people. */
  readonly onReport: (report: Report, changes: readonly string[]) => void
  /** Called with a line for people. */
  readonly show: (line: string) => void
  /** Shows people the output of the processes, too. The log has it in any case. */
  readonly isVerbose: boolean
  /** Keeps what a console shows: the objects with their status, and the latest audit lines. */
  readonly isShown?: boolean
}

/** An object of the manifests with the status that an operator would write. */
interface PlannedObject {
  readonly object: KubernetesObject
  readonly file: string
}

/** The audit lines that are kept for each workload. */
const KEPT_AUDIT_LINES = 500
const AUDIT_LINE = '"level":"audit"'

/** Runs manifests on one machine: the loop from files to processes and back to conditions. */
export class Standalone {
  /** Processes restart when a value in their environment changes. The key keeps the value secret from all others. */
  readonly #revisionKey = randomBytes(32)
  readonly #options: StandaloneOptions
  readonly #feed: ManifestFeed
  readonly #state: StateDirectory
  readonly #ports: LocalPorts
  readonly #pods: PodSet
  readonly #statusPoller: StatusPoller
  /** The workload behind each Service (`namespace/name`). */
  readonly #services = new Map<string, ObjectId>()
  readonly #statuses = new Map<string, object>()
  /** The folders of an earlier run. They are removed unless this run writes them too. */
  #leftFolders: readonly string[]
  #redact: (text: string) => string = (text) => text
  #settled: Promise<void> = Promise.resolve()
  #isSettling = false
  #isDirty = false
  #isClosed = false
  #unsettledSince: number | undefined
  #settleTimer: NodeJS.Timeout | undefined
  #changes: string[] = []
  #lastReport = ''
  #endpoints: readonly Endpoint[] = []
  #objects: readonly PlannedObject[] = []
  /** The latest audit lines by workload (`kind namespace/name`). */
  readonly #auditLines = new Map<string, string[]>()

  /** Throws an Error if the state directory is in use. */
  constructor(options: StandaloneOptions) {
    this.#options = options
    this.#feed = new ManifestFeed({ ...options, onChange: () => this.#takeOver() })
    this.#state = new StateDirectory(resolve(options.state))
    const { ports, folders } = this.#state.recall()
    this.#leftFolders = folders
    this.#ports = new LocalPorts(options.host, ports)
    this.#pods = new PodSet({
      environment: options.environment,
      onChange: () => this.#settle(),
      log: (line) => this.#log(line),
      show: options.isVerbose ? options.show : () => undefined,
      redact: (text) => this.#redact(text),
      buildUrl: (id) => this.#ports.buildUrl(id),
    })
    this.#statusPoller = new StatusPoller({ pods: () => this.#pods.all(), onChange: () => this.#settle() })
  }

  /** The path of the log with the output of all processes. */
  get logFile(): string {
    return this.#state.log.path
  }

  /** Returns the objects with their status, as of the last round; the same array until something changes. */
  objects(): readonly PlannedObject[] {
    return this.#objects
  }

  /** Returns what is wrong with the files: manifests that are not applied, and fields that do nothing. */
  fileProblems(): readonly Problem[] {
    return this.#feed.findings
      .filter(({ severity }) => severity !== 'note')
      .map(convertFinding)
      .map((problem) => ({ ...problem, message: this.#redact(problem.message) }))
  }

  /** Returns what is served now. */
  endpoints(): readonly Endpoint[] {
    return this.#endpoints
  }

  /** Returns the latest audit lines of a workload's data plane, if they are kept. */
  auditLines(id: ObjectId): readonly string[] {
    return this.#auditLines.get(formatTitle(id)) ?? []
  }

  #log(line: string): void {
    this.#state.log.write(line)
    if (this.#options.isShown !== true || !line.includes(AUDIT_LINE)) return
    const begin = line.indexOf('{')
    const title = line.slice(0, begin).replace(/( \(proxy\))?: $/, '')
    const kept = this.#auditLines.get(title) ?? []
    if (kept.length === 0) this.#auditLines.set(title, kept)
    kept.push(line.slice(begin))
    if (kept.length > KEPT_AUDIT_LINES) kept.splice(0, kept.length - KEPT_AUDIT_LINES)
  }

  #rememberObjects(planned: readonly Planned[]): void {
    const objects = planned.map(({ manifest, plan }) => ({
      object: { ...manifest.object, status: this.#redacted(plan.status) },
      file: manifest.file,
    }))
    if (!isDeepStrictEqual(objects, this.#objects)) this.#objects = objects
  }

  #redacted(status: object): object {
    return JSON.parse(JSON.stringify(status), (_, value) => (typeof value === 'string' ? this.#redact(value) : value))
  }

  /** Reads the manifests, starts their workloads and follows their changes. */
  start(): void {
    this.#feed.start()
    this.#statusPoller.start()
  }

  /** Stops every process. Resolves when all have ended. */
  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#settleTimer)
    this.#feed.stop()
    this.#statusPoller.stop()
    await this.#settled
    await this.#pods.stopAll()
    this.#state.release()
  }

  #takeOver(): void {
    this.#redact = redactor(this.#feed.accepted.secrets.flatMap(({ values }) => [...values.values()].map(String)))
    this.#settle()
  }

  /**
   * Works by level, not by edge: after any event everything is checked again, and a call during a round requests
   * another one.
   */
  #settle(): void {
    this.#isDirty = true
    if (!this.#isSettling && !this.#isClosed) this.#settled = this.#settleUntilClean()
  }

  async #settleUntilClean(): Promise<void> {
    this.#isSettling = true
    while (this.#isDirty && !this.#isClosed) {
      this.#isDirty = false
      const before = JSON.stringify(this.#pods.observations())
      try {
        const planned = await this.#round()
        if (JSON.stringify(this.#pods.observations()) !== before) this.#isDirty = true
        if (!this.#isDirty && !this.#isClosed) this.#report(planned)
      } catch (error) {
        // A fault of ours: running processes continue, and the next change tries again.
        this.#options.show(this.#redact(`portico: ${(error as Error).stack ?? String(error)}`))
      }
    }
    // In the same step as the last check of `isDirty`, so that no call falls between.
    this.#isSettling = false
  }

  /** Brings the processes to what the manifests ask for, once. */
  async #round(): Promise<readonly Planned[]> {
    const findStatus = (id: ObjectId) => this.#statuses.get(objectKey(id))
    const input = {
      ...this.#feed.accepted,
      observations: this.#pods.observations(),
      sources: this.#statusPoller.sources,
      findStatus,
      computeRevision: (place: string, value: Buffer) => hashRevision(this.#revisionKey, place, value),
    }
    const { podTemplate = 'baseline' } = this.#options
    const now = new Date().toISOString()
    const context = { group: this.#feed.group, now, image: 'portico', isOwnMachine: true, podTemplate }
    // Plans once to learn which workloads have pods and Services, and again with the addresses that these got.
    this.#learnServices(planManifests(input, { ...context, resolveAddress: () => UNREACHABLE }))
    await this.#assignPorts()
    const planned = planManifests(input, {
      ...context,
      resolveAddress: ({ namespace, name }) => this.#resolveAddress(`${namespace}/${name}`),
      serverUrl: (server) => this.#serverUrl({ kind: 'MCPServer', ...server }),
      serverCommand: (server) => this.#serverCommand({ kind: 'MCPServer', ...server }),
    })
    this.#apply(planned)
    return planned
  }

  #learnServices(planned: readonly Planned[]): void {
    for (const { manifest, plan } of planned) {
      if (plan.children === 'hold' || !findPod(plan.children)) continue
      for (const name of listServices(plan.children))
        this.#services.set(`${manifest.id.namespace}/${name}`, manifest.id)
    }
  }

  async #assignPorts(): Promise<void> {
    const owners = new Set([...this.#services.values()].map(objectKey))
    const manifests = this.#feed.accepted.manifests.filter(({ id }) => owners.has(objectKey(id)))
    const wishes = manifests.map(({ id, object }) => ({
      id,
      fixed: object.metadata.annotations?.[`${this.#feed.group}/local-port`],
      isUp: this.#pods.get(id)?.isUp ?? false,
    }))
    wishes.sort((left, right) => (objectKey(left.id) < objectKey(right.id) ? -1 : 1))
    await this.#ports.assign(wishes)
  }

  #resolveAddress(service: string): string {
    const owner = this.#services.get(service)
    return (owner && this.#ports.buildUrl(owner)) ?? UNREACHABLE
  }

  #serverUrl(id: ObjectId): string {
    const ports = this.#ports.of(id)
    return ports ? `http://127.0.0.1:${ports.server}${this.#localCommand(id)?.path ?? '/mcp'}` : `${UNREACHABLE}/mcp`
  }

  #serverCommand(id: ObjectId): ServerCommand | undefined {
    const local = this.#localCommand(id)
    if (!local) return undefined
    return { command: ['/bin/sh', '-c', local.command], cwd: local.folder, env: { PATH: local.searchPath } }
  }

  #localCommand({ kind, namespace, name }: ObjectId): LocalCommand | undefined {
    const key = objectKey({ kind, namespace, name })
    const manifest = this.#feed.accepted.manifests.find(({ id }) => objectKey(id) === key)
    const annotations = manifest?.object.metadata.annotations ?? {}
    const command = annotations[`${this.#feed.group}/local-command`]
    if (!manifest || !command) return undefined
    const usual = (manifest.object['spec'] as { transport?: string }).transport === 'sse' ? '/sse' : '/mcp'
    const path = annotations[`${this.#feed.group}/local-path`] ?? usual
    const folder = dirname(resolve(manifest.file))
    return {
      command,
      path: path.startsWith('/') ? path : `/${path}`,
      folder,
      searchPath: buildSearchPath(folder, process.execPath, this.#options.environment['PATH']),
    }
  }

  #apply(planned: readonly Planned[]): void {
    const wanted = new Set<string>()
    for (const { manifest, plan } of planned) {
      const { id } = manifest
      this.#statuses.set(objectKey(id), plan.status)
      // Held workloads keep running as they are.
      if (plan.children === 'hold') wanted.add(objectKey(id))
      else if (findPod(plan.children)) {
        wanted.add(objectKey(id))
        this.#applyPod(id, plan.children)
      }
    }
    for (const id of this.#pods.removeAllBut(wanted)) {
      this.#statuses.delete(objectKey(id))
      for (const [service, owner] of this.#services) {
        if (objectKey(owner) === objectKey(id)) this.#services.delete(service)
      }
      this.#changes.push(`${formatTitle(id)} removed`)
    }
    this.#remember()
  }

  #applyPod(id: ObjectId, children: readonly KubernetesObject[]): void {
    const root = join(this.#state.path, formatFolderName(id))
    const running = this.#pods.getOrAdd(id, root)
    const ports = this.#ports.of(id)
    if (!running || !ports) return
    const portProblem = this.#ports.findProblem(id)
    if (portProblem !== undefined) {
      running.block('LocalPortInvalid', portProblem)
      return
    }
    try {
      const pod = buildLocalPod({
        id,
        children,
        sources: collectSources(id, this.#feed.accepted, children),
        root,
        ports,
        local: this.#localCommand(id),
        group: this.#feed.group,
        self: this.#options.self,
      })
      const advice = `choose another port with the annotation ${this.#feed.group}/local-port on ${formatTitle(id)}`
      const change = pod && running.apply(pod, { host: ports.host, port: ports.listen, advice })
      if (change) this.#changes.push(`${formatTitle(id)} ${change}`)
    } catch (error) {
      if (!(error instanceof PodProblem)) throw error
      running.block('NotRunnableHere', error.message)
    }
  }

  /** Stores ports and folders for the next run. */
  #remember(): void {
    const folders = this.#pods.all().map(({ id }) => formatFolderName(id))
    for (const folder of this.#leftFolders) {
      if (!folders.includes(folder)) rmSync(join(this.#state.path, folder), { recursive: true, force: true })
    }
    this.#leftFolders = []
    this.#state.remember({ ports: this.#ports.toJSON(), folders })
  }

  #report(planned: readonly Planned[]): void {
    const pods = this.#pods.all()
    const now = performance.now()
    if (this.#options.isShown === true) this.#rememberObjects(planned)
    clearTimeout(this.#settleTimer)
    if (pods.some(({ phase }) => phase === 'starting')) {
      this.#unsettledSince ??= now
      const left = this.#unsettledSince + SETTLE_LIMIT_MS - now
      if (left > 0) {
        this.#settleTimer = setTimeout(() => this.#settle(), left)
        return
      }
    } else this.#unsettledSince = undefined
    const report = buildReport(
      pods.map((running) => ({ running, base: this.#ports.buildUrl(running.id) ?? '' })),
      planned,
      this.#feed.findings,
      this.#redact,
    )
    this.#endpoints = report.endpoints
    const text = JSON.stringify(report)
    if (text === this.#lastReport && this.#changes.length === 0) return
    this.#lastReport = text
    const changes = this.#changes
    this.#changes = []
    this.#options.onReport(report, changes)
  }
}

/**
 * Returns PATH for a local command, as npm sets it for scripts: first programs of packages that are installed in the
 * command's folder or above, then the Node that runs Portico, then the previous PATH.
 */
function buildSearchPath(folder: string, node: string, before: string | undefined): string {
  const bins: string[] = []
  for (let at = folder; ; at = dirname(at)) {
    bins.push(join(at, 'node_modules', '.bin'))
    if (dirname(at) === at) break
  }
  return [...bins, dirname(node), before ?? ''].filter((part) => part !== '').join(delimiter)
}
