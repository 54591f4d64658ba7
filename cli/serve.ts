import { totalmem } from 'node:os'
import { ConfigError, findingLine } from '../dataplane/config/load.ts'
import { type Command, type Given, type Io, UsageError, untilAborted } from './command.ts'
import { address } from './options/address.ts'
import { givenLogLevel } from './options/log-level.ts'
import { version } from './package-info.ts'

interface Served {
  readonly url: string
  readonly adminUrl: string
  /** Has the log tell more, or again what it told before. */
  switchDebug(): void
  close(): Promise<void>
}

interface Listeners {
  readonly configFile: string
  readonly listen: string
  readonly adminListen: string
}

/** What can be served; each one loads only its own half of the data plane. */
const planes: Readonly<
  Record<string, { readonly listen: string; start(options: Listeners, io: Io): Promise<Served> }>
> = {
  gateway: {
    listen: ':4483',
    async start(options, io) {
      const { serveGateway } = await import('../dataplane/gateway/index.ts')
      const own = { stateDirectory: stateDirectory(io), memoryBytes: containerMemory(), exports: exportTimes(io) }
      return serveGateway({ ...options, ...own, logLevel: givenLogLevel(io) })
    },
  },
  registry: {
    listen: ':8080',
    async start(options, io) {
      const { serveRegistry } = await import('../dataplane/registry/index.ts')
      return serveRegistry({
        ...options,
        stateDirectory: stateDirectory(io),
        memoryBytes: containerMemory(),
        exports: exportTimes(io),
        logLevel: givenLogLevel(io),
        version: { version, node: process.version },
      })
    },
  },
}

const stateDirectory = ({ env }: Io) => env['PORTICO_STATE_DIR'] || '.portico'

/** How often telemetry is sent, by the variables that OpenTelemetry has for that; what is no number of milliseconds is passed over. */
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

/** Memory of the container in bytes; undefined where it is not limited. */
function containerMemory(): number | undefined {
  const bytes = process.constrainedMemory()
  return bytes > 0 && bytes < totalmem() ? bytes : undefined
}

function readUsage(given: Given) {
  const [name] = given.positionals
  const what = Object.keys(planes).join(' or ')
  if (name === undefined) throw new UsageError(`what to serve is missing: ${what}`)
  const plane = Object.hasOwn(planes, name) ? planes[name] : undefined
  if (!plane) throw new UsageError(`can't serve ${name}: takes ${what}`)
  const configFile = given.text('config')
  if (configFile === undefined) throw new UsageError('--config is missing')
  return {
    plane,
    options: {
      configFile,
      listen: address(given, 'listen') ?? plane.listen,
      adminListen: address(given, 'admin-listen') ?? ':8081',
    },
  }
}

export const command: Command = {
  name: 'serve',
  synopsis: 'gateway|registry --config FILE [options]',
  about: `Serves one data plane: a gateway (MCP) or a registry (the catalog). The config file is watched: a change takes
effect at once and sessions live on; a broken one is refused with every finding while the old one serves.
SIGUSR2 has the log tell more (debug), until it comes again.
PORTICO_STATE_DIR (default .portico) is where a registry keeps its database, and a gateway the vectors of tool search.`,
  options: {
    config: { type: 'string', value: 'FILE', description: 'Configuration (YAML or JSON). Required.' },
    listen: {
      type: 'string',
      value: 'HOST:PORT',
      description: 'Public listener. Default: :4483, for a registry :8080.',
    },
    'admin-listen': { type: 'string', value: 'HOST:PORT', description: 'Probes, status, metrics. Default: :8081.' },
  },
  mostOperands: 1,
  async run(given, io) {
    const { plane, options } = readUsage(given)
    let served: Served | undefined
    const onSignal = () => served?.switchDebug()
    process.on('SIGUSR2', onSignal)
    try {
      served = await plane.start(options, io)
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error
      for (const finding of error.findings) io.err(findingLine({ file: options.configFile, ...finding }))
      return 1
    }
    await untilAborted(io.stop)
    await served.close()
    process.off('SIGUSR2', onSignal)
    return 0
  },
}
