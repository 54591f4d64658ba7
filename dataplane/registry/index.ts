import { isDeepStrictEqual } from 'node:util'
import type { Logger } from 'pino'
import { adminApp } from '../server/admin.ts'
import { type Listener, listen } from '../server/listen.ts'
import { createLog } from '../server/log.ts'
import { type Observe, observeNothing } from '../telemetry/observe.ts'
import { registryApp } from './api/app.ts'
import { catalogReads } from './api/catalog-reads.ts'
import type { Api } from './api/context.ts'
import { createVisibility } from './authz/visibility.ts'
import { followConfiguration } from './configuration.ts'
import { createIdentity } from './identity.ts'
import type { RegistrySettings } from './settings.ts'
import { scheduleOf } from './sources/place.ts'
import type { SyncState } from './sources/schedule.ts'
import { createScheduler } from './sources/scheduler.ts'
import { readiness, statusOf } from './status.ts'
import { openStore } from './store/index.ts'

export interface ServeRegistryOptions {
  readonly configFile: string
  /** `HOST:PORT` of the public listener; port 0 is any free one. */
  readonly listen: string
  readonly adminListen: string
  /** Where the store is kept. */
  readonly stateDirectory: string
  readonly log?: Logger
  readonly observe?: Observe
  /** What `/version` tells. */
  readonly version?: { readonly version: string; readonly node: string; readonly apiGroup?: string }
}

export interface RunningRegistry {
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
  // First of all the configuration is left as it is; then the parts end in the reverse order of their start.
  const close = () => {
    following.abort()
    return parts.disposeAsync()
  }
  try {
    const configuration = await followConfiguration(options.configFile, following.signal, log)

    const { postgres } = configuration.current()
    const { stateDirectory } = options
    // Sources made through another replica are scheduled here too.
    const onSettings = () => void schedule(configuration.current())
    const store = parts.adopt(await openStore({ stateDirectory, postgres, onSettings }, log), ({ close }) => close())
    const identity = parts.adopt(createIdentity({ log, observe }), ({ close }) => close())
    const recordSync = (source: string, state: SyncState) => store.recordSync({ source, state: JSON.stringify(state) })
    const scheduler = parts.adopt(
      createScheduler({ sync: store.syncSource, record: recordSync, log, observe }),
      ({ stop }) => stop(),
    )
    const schedule = async (settings: RegistrySettings) => {
      const sources = await store.reader.sources()
      const created = sources.filter(({ origin }) => origin === 'api')
      const { directory, limits } = settings
      const reach = { directory, publicOnly: limits.privateSources === 'deny' }
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
    const app = registryApp({ api, origins, version: version.version, log, observe })
    const direct = catalogReads({ api, away: store.away, origins, log, observe })
    const adminListener = parts.adopt(await listen(admin.fetch, options.adminListen), closeListener)
    const listener = parts.adopt(await listen(app.fetch, options.listen, { direct }), closeListener)
    log.info({ url: listener.url, admin: adminListener.url }, 'the registry is served')

    return { url: listener.url, adminUrl: adminListener.url, close }
  } catch (error) {
    await close()
    throw error
  }
}

function closeListener(listener: Listener): Promise<void> {
  return listener.close()
}
