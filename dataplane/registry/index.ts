import { setTimeout as delay } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import type { Level, Logger } from 'pino'
import { Audit } from '../audit/audit.ts'
import { parseAddress } from '../server/listen/address.ts'
import { listenAdmin } from '../server/listen/admin.ts'
import { atOnce, type DrainTimes, type Listener, listen } from '../server/listen/listen.ts'
import { createLog, LogLevel } from '../server/log.ts'
import type { Observe } from '../telemetry/observe.ts'
import type { ExportTimes } from '../telemetry/options.ts'
import { Telemetry } from '../telemetry/telemetry.ts'
import { catalogReads } from './api/catalog/reads.ts'
import { CallerMemory, callerLimits } from './api/request/caller-memory.ts'
import type { Api } from './api/request/operation.ts'
import { registryApp } from './app.ts'
import { createVisibility } from './authz/access.ts'
import { type Configuration, followConfiguration, type RegistrySettings } from './settings/configuration.ts'
import { createIdentity, type Identity } from './settings/identity.ts'
import type { SyncState } from './sources/format/source.ts'
import { buildStatus, measureRegistry, readiness } from './status.ts'
import type { SourceRecord } from './store/database/records.ts'
import { openStore, type Store } from './sync/open-store.ts'
import { buildSchedule, createScheduler, type Scheduler } from './sync/schedule.ts'

interface ServeRegistryOptions {
  readonly configFile: string
  readonly listen: string
  readonly adminListen: string
  readonly stateDirectory: string
  /** If a logger is given, its owner sets its level. */
  readonly log?: Logger
  /** Overrides the level of the configuration. */
  readonly logLevel?: Level | undefined
  readonly observe?: Observe
  readonly exports?: ExportTimes | undefined
  /** Divides the intervals between syncs. Tests set it, since the shortest interval is whole seconds. */
  readonly syncsHastenedBy?: number | undefined
  /** The interval of checks that the writing thread has not stalled, in milliseconds. Tests set it too. */
  readonly checkMs?: number | undefined
  /** The memory limit of this process in bytes, from which the limits of callers follow. */
  readonly memoryBytes?: number | undefined
  readonly version?: { readonly version: string; readonly node: string; readonly apiGroup?: string }
}

interface RunningRegistry {
  readonly url: string
  readonly adminUrl: string
  switchDebug(): void
  /** Drains the listeners within `times`, ends the syncs and closes the store. Without `times` it ends at once. */
  close(times?: DrainTimes): Promise<void>
}

/**
 * Serves a registry by its configuration file, which it follows. Throws a ConfigError, or an Error that names the port
 * or store that is not available.
 */
export async function serveRegistry(options: ServeRegistryOptions): Promise<RunningRegistry> {
  const level = new LogLevel(options.logLevel)
  const { log = createLog({ name: 'registry', level }) } = options
  const ends = new Ends()
  try {
    const location = { file: options.configFile, listenHost: parseAddress(options.listen).host }
    const configuration = await followConfiguration(location, ends.signal, log)
    const version = options.version?.version ?? 'unknown'
    let parts: Parts | undefined
    const measure = () =>
      parts === undefined ? { readings: [] } : measureRegistry({ ...parts, away: parts.store.away })
    const telemetry = ends.adopt(new Telemetry({ ...options.exports, role: 'registry', version, log, measure }))
    const observe = options.observe ?? telemetry.observe
    const audit = ends.adopt(new Audit(log))
    configuration.onReload = (hash) => audit.reloaded(hash)
    parts = await startParts({ ...options, configuration, ends, log, level, observe, telemetry, audit })
    const { url, adminUrl } = await startListeners(options, parts)
    log.info({ url, admin: adminUrl }, 'the registry is served')
    return { url, adminUrl, switchDebug: () => level.switchDebug(log), close: (times) => ends.close(times) }
  } catch (error) {
    await ends.close()
    throw error
  }
}

/** Closes the parts of a registry in order. */
class Ends {
  readonly #following = new AbortController()
  readonly #parts = new AsyncDisposableStack()
  readonly #front: ((times: DrainTimes) => Promise<unknown>)[] = []
  /** Aborted first: the configuration is no longer followed from then on. */
  readonly signal = this.#following.signal

  /** Adds a part that gives work to others. These parts close together, before the rest. */
  addFront(end: (times: DrainTimes) => Promise<unknown>): void {
    this.#front.push(end)
  }

  adopt<T extends { close(): Promise<void> }>(part: T): T {
    return this.#parts.adopt(part, (it) => it.close())
  }

  async close(times = atOnce(GRACE_MS)): Promise<void> {
    this.#following.abort()
    await Promise.all(this.#front.map((end) => end(times)))
    await this.#parts.disposeAsync()
  }
}

interface PartsOptions extends Pick<ServeRegistryOptions, 'stateDirectory' | 'syncsHastenedBy' | 'checkMs'> {
  readonly telemetry: Telemetry
  readonly audit: Audit
  readonly configuration: Configuration
  readonly ends: Ends
  readonly log: Logger
  readonly level: LogLevel
  readonly observe: Observe
}

interface Parts extends PartsOptions {
  readonly store: Store
  readonly identity: Identity
  readonly scheduler: Scheduler
  readonly schedule: () => Promise<void>
}

/** Opens the store and puts the configuration in force. */
async function startParts(options: PartsOptions): Promise<Parts> {
  const { stateDirectory, syncsHastenedBy = 1, checkMs } = options
  const { configuration, ends, log, level, observe, telemetry, audit } = options
  const { postgres } = configuration.current()
  // Another replica may have created a source by the API.
  const onSettings = () => {
    schedule(configuration.current()).catch((error: unknown) =>
      log.warn({ err: error }, 'the sources of other replicas can’t be read'),
    )
  }
  const store = ends.adopt(await openStore({ stateDirectory, postgres, onSettings, observe, checkMs }, log))
  const identity = ends.adopt(createIdentity({ log, observe }))
  const record = (source: string, state: SyncState) => store.recordSync({ source, state: JSON.stringify(state) })
  const scheduler = createScheduler({ sync: store.syncSource, record, log, observe, audit })
  ends.addFront(() => waitWithin(SYNCS_END_MS, scheduler.stop()))
  const schedule = async (settings: RegistrySettings) => {
    const sources = await store.reader.sources()
    const schedules = [...settings.schedules, ...buildApiSchedules(sources, settings)].map((schedule) => ({
      ...schedule,
      intervalMs: schedule.intervalMs / syncsHastenedBy,
    }))
    if (!ends.signal.aborted) scheduler.apply(schedules, new Map(sources.map(({ name, sync }) => [name, sync])))
  }
  await configuration.begin(async (settings) => {
    if (!isDeepStrictEqual(settings.postgres, postgres)) throw new Error('a change of the database needs a restart')
    await store.applySettings(settings)
    identity.apply(settings.auth, settings.directory)
    const { directory } = settings
    level.configure(settings.logLevel)
    await telemetry.apply({ telemetry: settings.telemetry, directory, workload: WORKLOAD })
    await audit.apply({ audit: settings.audit, directory, workload: WORKLOAD })
    await schedule(settings)
  })
  return { ...options, store, identity, scheduler, schedule: () => schedule(configuration.current()) }
}

const WORKLOAD = 'portico-registry'

function buildApiSchedules(sources: readonly SourceRecord[], { directory, limits }: RegistrySettings) {
  const { privateSources, sourceBytes } = limits
  const options = { directory, publicOnly: privateSources === 'deny', sourceBytes }
  return sources
    .filter(({ origin }) => origin === 'api')
    .flatMap(({ name, config }) => buildSchedule({ name, ...config }, options) ?? [])
}

async function startListeners(
  options: ServeRegistryOptions,
  parts: Parts,
): Promise<Pick<RunningRegistry, 'url' | 'adminUrl'>> {
  const { configuration, store, scheduler, ends, log, observe, telemetry, audit } = parts
  const version = options.version ?? { version: 'unknown', node: process.version }
  const isReady = readiness(scheduler, store.away)
  const adminListener = await listenAdmin(options.adminListen, {
    status: () => ({
      ...buildStatus(configuration, scheduler, audit.problem),
      ...telemetry.status(),
      ...audit.status(),
    }),
    ready: () => (ends.signal.aborted ? { reason: 'the registry is stopping' } : isReady()),
    version,
    metrics: (accept) => telemetry.prometheus(accept),
  })
  let listener: Listener | undefined
  ends.addFront(async (times) => {
    await listener?.close(times)
    // Until then probes are answered: not ready, and alive.
    await adminListener.close(ADMIN_GRACE_MS)
  })
  const api = buildApi(parts)
  const origins = () => configuration.current().origins
  const hosts = () => configuration.current().hosts
  const memory = new CallerMemory(callerLimits(options.memoryBytes, () => configuration.current().limits.bodyBytes))
  const app = registryApp({ api, memory, origins, hosts, version: version.version, log, observe, audit })
  const direct = catalogReads({ api, memory, away: store.away, origins, hosts, log, observe, audit })
  listener = await listen(app.fetch, options.listen, { direct })
  return { url: listener.url, adminUrl: adminListener.url }
}

function buildApi({ configuration, store, identity, scheduler, schedule, ends }: Parts): Api {
  return {
    reader: store.reader,
    writer: store.writer,
    identity,
    findVisibility: createVisibility(store.reader.claimsSets),
    ending: ends.signal,
    limits: () => configuration.current().limits,
    syncs: { state: scheduler.state, syncNow: scheduler.syncNow, changed: schedule },
  }
}

const GRACE_MS = 10_000
const ADMIN_GRACE_MS = 1_000
/** A stop waits so long for syncs. A thread that has stalled is terminated later. */
const SYNCS_END_MS = 5_000

async function waitWithin(ms: number, ending: Promise<unknown>): Promise<void> {
  const patience = new AbortController()
  const timeout = delay(ms, undefined, { signal: patience.signal }).catch(() => {
    // The timer is aborted below.
  })
  await Promise.race([ending, timeout])
  patience.abort()
}
