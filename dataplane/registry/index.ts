import { setTimeout as delay } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import type { Logger } from 'pino'
import { parseAddress } from '../server/address.ts'
import { adminApp } from '../server/admin.ts'
import { listen } from '../server/listen.ts'
import { createLog } from '../server/log.ts'
import { type Observe, observeNothing } from '../telemetry/observe.ts'
import { catalogReads } from './api/catalog/reads.ts'
import { CallerMemory, callerLimits } from './api/request/caller-memory.ts'
import type { Api } from './api/request/context.ts'
import { registryApp } from './app.ts'
import { createVisibility } from './authz/visibility.ts'
import { followConfiguration } from './settings/configuration.ts'
import { createIdentity } from './settings/identity.ts'
import type { RegistrySettings } from './settings/settings.ts'
import type { SyncState } from './sources/format/sync-state.ts'
import { readiness, statusOf } from './status.ts'
import { openStore } from './sync/open-store.ts'
import { scheduleOf } from './sync/schedule-of.ts'
import { createScheduler } from './sync/scheduler.ts'

interface ServeRegistryOptions {
  readonly configFile: string
  /** `HOST:PORT` of the public listener; port 0 is any free one. */
  readonly listen: string
  readonly adminListen: string
  /** Where the store is kept. */
  readonly stateDirectory: string
  readonly log?: Logger
  readonly observe?: Observe
  /** Memory that this process may take, in bytes, where it is limited; what callers may hold follows from it. */
  readonly memoryBytes?: number | undefined
  /** What `/version` tells. */
  readonly version?: { readonly version: string; readonly node: string; readonly apiGroup?: string }
}

interface RunningRegistry {
  /** `http://host:port` of the public listener. */
  readonly url: string
  readonly adminUrl: string
  /** Drains the listeners, ends the syncs and closes the store. */
  close(): Promise<void>
}

/**
 * Serves a registry by its configuration file, which it follows.
 * Throws a ConfigError where the file won't do, and an Error that names it where a port or the store can't be had.
 */
export async function serveRegistry(options: ServeRegistryOptions): Promise<RunningRegistry> {
  const { log = createLog({ name: 'registry', level: 'info' }), observe = observeNothing } = options
  const parts = new AsyncDisposableStack()
  const following = new AbortController()
  // First of all the configuration is left as it is; then whoever asks for something goes, and then the rest in the reverse
  // order of its start.
  const front: (() => Promise<unknown>)[] = []
  const close = async () => {
    following.abort()
    await Promise.all(front.map((end) => end()))
    await parts.disposeAsync()
  }
  try {
    const place = { file: options.configFile, listenHost: parseAddress(options.listen).host }
    const configuration = await followConfiguration(place, following.signal, log)

    const { postgres } = configuration.current()
    const { stateDirectory } = options
    // Sources made through another replica are scheduled here too.
    const onSettings = () => {
      schedule(configuration.current()).catch((error: unknown) =>
        log.warn({ err: error }, 'the sources of other replicas can’t be read'),
      )
    }
    const store = parts.adopt(await openStore({ stateDirectory, postgres, onSettings }, log), ({ close }) => close())
    const identity = parts.adopt(createIdentity({ log, observe }), ({ close }) => close())
    const recordSync = (source: string, state: SyncState) => store.recordSync({ source, state: JSON.stringify(state) })
    const scheduler = createScheduler({ sync: store.syncSource, record: recordSync, log, observe })
    front.push(() => within(SYNCS_END_MS, scheduler.stop()))
    const schedule = async (settings: RegistrySettings) => {
      const sources = await store.reader.sources()
      const created = sources.filter(({ origin }) => origin === 'api')
      const { directory, limits } = settings
      const { privateSources, sourceBytes } = limits
      const reach = { directory, publicOnly: privateSources === 'deny', sourceBytes }
      const schedules = created.flatMap(({ name, config }) => scheduleOf({ name, ...config }, reach) ?? [])
      if (!following.signal.aborted)
        scheduler.apply([...settings.schedules, ...schedules], new Map(sources.map(({ name, sync }) => [name, sync])))
    }
    await configuration.begin(async (settings) => {
      if (!isDeepStrictEqual(settings.postgres, postgres)) throw new Error('another database needs a restart')
      await store.applySettings(settings)
      identity.apply(settings.auth, settings.directory)
      await schedule(settings)
    })

    const version = options.version ?? { version: 'unknown', node: process.version }
    const admin = adminApp({
      status: () => statusOf(configuration, scheduler),
      ready: readiness(scheduler, store.away),
      version,
    })
    const api: Api = {
      reader: store.reader,
      writer: store.writer,
      identity,
      visibilityOf: createVisibility(store.reader.claimsSets),
      limits: () => configuration.current().limits,
      syncs: {
        stateOf: scheduler.state,
        run: scheduler.syncNow,
        changed: () => schedule(configuration.current()),
      },
    }
    const origins = () => configuration.current().origins
    const hosts = () => configuration.current().hosts
    const memory = new CallerMemory(callerLimits(options.memoryBytes, () => configuration.current().limits.bodyBytes))
    const app = registryApp({ api, memory, origins, hosts, version: version.version, log, observe })
    const direct = catalogReads({ api, memory, away: store.away, origins, hosts, log, observe })
    const adminListener = await listen(admin.fetch, options.adminListen)
    front.push(() => adminListener.close())
    const listener = await listen(app.fetch, options.listen, { direct })
    front.push(() => listener.close())
    log.info({ url: listener.url, admin: adminListener.url }, 'the registry is served')

    return { url: listener.url, adminUrl: adminListener.url, close }
  } catch (error) {
    await close()
    throw error
  }
}

/** After this a stop goes on without the syncs: the thread that they are in may stand still, and is then ended. */
const SYNCS_END_MS = 5_000

/** Waits for what ends, and no longer than so many milliseconds. */
async function within(ms: number, ending: Promise<unknown>): Promise<void> {
  const patience = new AbortController()
  await Promise.race([ending, delay(ms, undefined, { signal: patience.signal }).catch(() => {})])
  patience.abort()
}
