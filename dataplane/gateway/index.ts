import type { Level, Logger } from 'pino'
import manifest from '../../package.json' with { type: 'json' }
import type { GatewayConfig } from '../config/gateway.ts'
import type { Loaded } from '../config/load.ts'
import { readGateway } from '../config/read/gateway.ts'
import { watchConfig } from '../config/watch.ts'
import type { UpstreamTokens } from '../credentials/index.ts'
import { type AdminOptions, listenAdmin } from '../server/listen/admin.ts'
import { later } from '../server/listen/later.ts'
import { atOnce, type DrainTimes, type Listener, listen } from '../server/listen/listen.ts'
import { createLog, LogLevel } from '../server/log.ts'
import type { Observe } from '../telemetry/observe.ts'
import type { ExportTimes } from '../telemetry/options.ts'
import { Gateway } from './core/gateway.ts'
import { buildStatus } from './core/status.ts'
import { directEndpoint } from './endpoint/serve.ts'
import { connectionLimit } from './limits/memory-limits.ts'
import { measureGateway, Reporting } from './reporting.ts'
import { CrossOrigin } from './request/cross-origin.ts'
import { OwnIssuer } from './request/own-issuer.ts'

interface ServeGatewayOptions {
  readonly configFile: string
  /** `HOST:PORT` of the MCP endpoint. */
  readonly listen: string
  /** `HOST:PORT` of probes and status. */
  readonly adminListen: string
  /** The log. Its creator sets its level. */
  readonly log?: Logger
  /** Overrides the level of the configuration. */
  readonly logLevel?: Level | undefined
  readonly observe?: Observe
  /** The intervals at which telemetry is sent. */
  readonly exports?: ExportTimes | undefined
  /** The memory limit of this process in bytes, if any. The callers' limits derive from it. */
  readonly memoryBytes?: number | undefined
  /** The folder for state on disk; default `.portico`. */
  readonly stateDirectory?: string
  /**
   * The tokens that upstream providers issued to callers at login; absent: those of the gateway's own authorization
   * server.
   */
  readonly upstreamTokens?: UpstreamTokens | undefined
  /** The drain times for a preStop hook, which the admin listener then serves. */
  readonly preStop?: DrainTimes | undefined
}

export interface ServedGateway {
  /** `http://host:port`. The MCP endpoint is `/mcp` below it. */
  readonly url: string
  readonly adminUrl: string
  /** Turns debug lines in the log on or off. */
  switchDebug(): void
  /** Stops within `times`; absent: as soon as the calls in flight have ended. */
  close(times?: DrainTimes): Promise<void>
}

/** The longest time that calls in flight have to end if no times are given. */
const GRACE_MS = 22_000
const ADMIN_GRACE_MS = 1_000

/**
 * Serves one gateway and follows its configuration file. At the start it rejects with a ConfigError that holds every
 * finding if the file is invalid, and with an Error that names the address if that is in use. Later an invalid file is
 * logged, and the current configuration stays.
 */
export async function serveGateway(options: ServeGatewayOptions): Promise<ServedGateway> {
  const { configFile, memoryBytes, stateDirectory = '.portico', upstreamTokens } = options
  const level = new LogLevel(options.logLevel)
  const log = options.log ?? createLog({ name: 'gateway', level })
  const measure = () => (gateway === undefined ? { readings: [] } : measureGateway(gateway))
  const reporting = new Reporting(log, { ...options, measure })
  const { observe, audit } = reporting
  const ownIssuer = new OwnIssuer({ log, audit, observe, memoryBytes, upstreamTokens })
  const own = { version: manifest.version, log, observe, audit, memoryBytes, stateDirectory, ownIssuer }
  const stop = new AbortController()
  const publicRoutes = later(async () => (await import('./public-app.ts')).publicApp(running()), log)
  // Listeners are opened first, because the setup contains the actual addresses.
  let gateway: Gateway | undefined
  let isStopping = false

  const loaded = await watchConfig(configFile, {
    read: (text, file) => readGateway(text, file, gateway?.setup.config),
    onConfig: (next) => inForce(next),
    onRefused(findings) {
      running().refused = findings
      reporting.refused(findings)
    },
    signal: stop.signal,
  })

  const listeners: Listener[] = []
  const first = CrossOrigin.of(loaded.config)
  try {
    const listener = await listen(publicRoutes, options.listen, {
      direct: directEndpoint(() => gateway, first),
      refusalHeaders: (origin) => (gateway === undefined ? first : gateway.setup.crossOrigin)?.refusal(origin) ?? [],
      maxConnections: connectionLimit(memoryBytes),
      isProxied: () => gateway?.setup.config.trustProxyHeaders === true,
    })
    listeners.push(listener)
    level.configure(loaded.config.logLevel)
    await reporting.apply(loaded)
    gateway = new Gateway(loaded, { ...own, listenerUrl: listener.url })
    if (options.log === undefined) log.setBindings({ gateway: `${loaded.config.namespace}/${loaded.config.name}` })
    const adminRoutes = later(async () => (await import('./admin-routes.ts')).adminRoutes(running), log)
    const probes = {
      ...probesAndStatus(running, reporting, () => isStopping),
      ...buildPreStop(listener, options.preStop, running),
    }
    listeners.push(await listenAdmin(options.adminListen, probes, adminRoutes))
  } catch (error) {
    await close()
    throw error
  }

  function running(): Gateway {
    return gateway as Gateway
  }

  async function inForce(next: Loaded<GatewayConfig>): Promise<void> {
    level.configure(next.config.logLevel)
    running().apply(next)
    await reporting.reload(next)
  }

  async function close(times = atOnce(GRACE_MS)): Promise<void> {
    isStopping = true
    stop.abort()
    await end(gateway, listeners, times)
    await reporting.close()
  }

  const [{ url }, { url: adminUrl }] = listeners as [Listener, Listener]
  log.info({ url, adminUrl, config: loaded.hash }, 'the gateway serves')
  return { url, adminUrl, switchDebug: () => level.switchDebug(log), close }
}

/** Returns the handler of the preStop hook; nothing if no times are given. */
const buildPreStop = (
  listener: Listener,
  times: DrainTimes | undefined,
  running: () => Gateway,
): Pick<AdminOptions, 'preStop'> =>
  // This process is ended after the server in the same pod, and that server's end waits for this answer.
  times ? { preStop: () => listener.empty(times, 2 * times.graceMs, () => running().endStreams()) } : {}

async function end(
  gateway: Gateway | undefined,
  [publicListener, adminListener]: readonly Listener[],
  times: DrainTimes,
): Promise<void> {
  // Streams would not end by themselves. They end first, so that clients reconnect elsewhere and only calls remain.
  // Clients that return because their load balancer has not noticed yet are served until the notice time is over.
  const early = times.noticeMs > 0 ? setTimeout(() => gateway?.endStreams(), times.noticeMs / 2) : undefined
  publicListener?.closing.addEventListener('abort', () => gateway?.drain())
  await Promise.all([publicListener?.close(times), gateway?.suspended.settled(times.graceMs)])
  clearTimeout(early)
  // Probes are answered to the end: not ready, but alive.
  await adminListener?.close(ADMIN_GRACE_MS)
  await gateway?.close()
}

const probesAndStatus = (running: () => Gateway, reporting: Reporting, isStopping: () => boolean): AdminOptions => ({
  status: () => ({ ...buildStatus(running()), ...reporting.status() }),
  ready() {
    const reason = isStopping() ? 'the gateway is stopping' : running().notReady
    return reason === undefined ? true : { reason }
  },
  version: { version: manifest.version, node: process.version },
  metrics: (accept) => reporting.telemetry.prometheus(accept),
})
