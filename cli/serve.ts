import { totalmem } from 'node:os'
import { ConfigError, findingLine } from '../dataplane/config/load.ts'
import type { ServedGateway, serveGateway } from '../dataplane/gateway/index.ts'
import type { serveRegistry } from '../dataplane/registry/index.ts'
import { atOnce, drainTimes, PRE_STOP } from '../dataplane/server/listen/listen.ts'
import { type Command, type Given, type Io, UsageError, waitForAbort } from './command.ts'
import { answerFast, stayCompiled } from './memory.ts'
import { readAddress, readGivenLogLevel } from './options/serving.ts'
import { version } from './package-info.ts'

type PlaneOptions = Parameters<typeof serveGateway>[0] & Parameters<typeof serveRegistry>[0]

const planes: Readonly<
  Record<string, { readonly listen: string; start(options: PlaneOptions): Promise<ServedGateway> }>
> = {
  gateway: {
    listen: ':4483',
    async start(options) {
      answerFast()
      const { serveGateway } = await import('../dataplane/gateway/index.ts')
      return serveGateway(options)
    },
  },
  registry: {
    listen: ':8080',
    async start(options) {
      stayCompiled()
      const { serveRegistry } = await import('../dataplane/registry/index.ts')
      return serveRegistry({ ...options, version: { version, node: process.version } })
    },
  },
}

/** Returns the intervals of telemetry exports, by OpenTelemetry's variables; invalid values are ignored. */
function exportTimes({ env }: Io) {
  const milliseconds = (name: string) => {
    const text = env[name] ?? ''
    return /^[1-9]\d{0,8}$/.test(text) ? Number(text) : undefined
  }
  return {
    metricsEveryMs: milliseconds('OTEL_METRIC_EXPORT_INTERVAL'),
    spansAfterMs: milliseconds('OTEL_BSP_SCHEDULE_DELAY'),
  }
}

/** Returns the container's memory limit in bytes; undefined if there is none. */
function readContainerMemory(): number | undefined {
  const bytes = process.constrainedMemory()
  return bytes > 0 && bytes < totalmem() ? bytes : undefined
}

function readSeconds(given: Given, option: string): number {
  const text = given.text(option) ?? ''
  if (!/^\d{1,6}$/.test(text)) throw new UsageError(`--${option} ${text}: takes a number of seconds`)
  return Number(text)
}

/** The share of a pod's grace period for the hook before the server ends; the server ends in the rest. */
const PRE_STOP_SHARE = 0.75

function readUsage(given: Given, io: Io) {
  const [name] = given.positionals
  const what = Object.keys(planes).join(' or ')
  if (name === undefined) throw new UsageError(`what to serve is missing: ${what}`)
  const plane = Object.hasOwn(planes, name) ? planes[name] : undefined
  if (!plane) throw new UsageError(`can't serve ${name}: takes ${what}`)
  const configFile = given.text('config')
  if (configFile === undefined) throw new UsageError('--config is missing')
  const notice = readSeconds(given, 'drain')
  const grace = readSeconds(given, 'grace')
  return {
    plane,
    drain: drainTimes(notice, grace),
    options: {
      ...(given.flag('pre-stop') && { preStop: drainTimes(notice, grace * PRE_STOP_SHARE) }),
      configFile,
      listen: readAddress(given, 'listen') ?? plane.listen,
      adminListen: readAddress(given, 'admin-listen') ?? ':8081',
      stateDirectory: io.env['PORTICO_STATE_DIR'] || '.portico',
      memoryBytes: readContainerMemory(),
      exports: exportTimes(io),
      logLevel: readGivenLogLevel(io),
    },
  }
}

export const command: Command = {
  name: 'serve',
  synopsis: 'gateway|registry --config FILE [options]',
  about: `Serves one data plane: a gateway (MCP) or a registry (the catalog). The config file is watched: a change takes
effect at once and sessions continue. If the file is broken, all findings are logged and the previous configuration stays.
After SIGTERM it drains: it is not ready, accepts new connections for the time of --drain, closes each connection with
its next answer, and ends when no connection is left, at the latest shortly before --grace is over. After SIGINT it ends
when the calls in flight are answered. A second signal ends it at once.
SIGUSR2 switches debug lines of the log on, and off again.
PORTICO_STATE_DIR (default .portico) is where a registry keeps its database, and a gateway the vectors of tool search.`,
  options: {
    config: { type: 'string', value: 'FILE', description: 'Configuration (YAML or JSON). Required.' },
    listen: {
      type: 'string',
      value: 'HOST:PORT',
      description: 'Public listener. Default: :4483, for a registry :8080.',
    },
    'admin-listen': { type: 'string', value: 'HOST:PORT', description: 'Probes, status, metrics. Default: :8081.' },
    drain: {
      type: 'string',
      value: 'SECONDS',
      default: '5',
      description: 'Time in which load balancers may still send new connections after SIGTERM.',
    },
    grace: {
      type: 'string',
      value: 'SECONDS',
      default: '30',
      description: 'After how long it is killed: the grace period of its pod. It has ended a little before.',
    },
    'pre-stop': {
      type: 'boolean',
      description: `Answers GET ${PRE_STOP} on the admin listener, for preStop hooks in the pod: it drains, and answers when no client is left.`,
    },
  },
  mostOperands: 1,
  async run(given, io) {
    const { plane, drain, options } = readUsage(given, io)
    let served: ServedGateway | undefined
    const onSignal = () => served?.switchDebug()
    process.on('SIGUSR2', onSignal)
    try {
      served = await plane.start(options)
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error
      for (const finding of error.findings) io.err(findingLine({ file: options.configFile, ...finding }))
      return 1
    }
    await waitForAbort(io.stop)
    await served.close(io.stop.reason === 'SIGTERM' ? drain : atOnce(drain.graceMs))
    process.off('SIGUSR2', onSignal)
    return 0
  },
}
