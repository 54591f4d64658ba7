import { Agent as PlainAgent } from 'node:http'
import { Agent, type AgentOptions } from 'node:https'
import { resolve } from 'node:path'
import { getCACertificates } from 'node:tls'
import { secretFile } from '../../config/secret-file.ts'
import { type OpenTelemetrySettings, otlpEndpoint } from '../../config/telemetry/telemetry.ts'

/** Longest time for one export with its retries. */
const EXPORT_MS = 10_000
const CONNECTIONS = 4

/** How both exporters send: options of `OTLPExporterNodeConfigBase`, but for the URL. */
export interface ExportOptions {
  readonly headers: () => Promise<Record<string, string>>
  readonly httpAgentOptions: (protocol: string) => PlainAgent
  readonly timeoutMillis: number
}

/** Options for the exporters. Secret headers and the CA bundle are read anew when their files change. */
export function exportOptions(settings: OpenTelemetrySettings, directory: string): ExportOptions {
  const { headers = {}, sensitiveHeaders = [], caBundleFile } = settings
  const secrets = sensitiveHeaders.map(({ name, file }) => ({ name, read: secretFile(resolve(directory, file)) }))
  return {
    // What throws here fails the export, and nothing is sent without its credential.
    headers: async () => ({ ...headers, ...Object.fromEntries(secrets.map(({ name, read }) => [name, read()])) }),
    httpAgentOptions(protocol) {
      const options = { keepAlive: true, maxSockets: CONNECTIONS, timeout: EXPORT_MS }
      if (protocol === 'http:') return new PlainAgent(options)
      if (caBundleFile === undefined) return new Agent(options)
      return new BundleAgent(options, secretFile(resolve(directory, caBundleFile)))
    },
    timeoutMillis: EXPORT_MS,
  }
}

/** The URL of one signal: below the endpoint, as OTLP over HTTP has it. */
export function signalUrl(settings: OpenTelemetrySettings, signal: 'traces' | 'metrics'): string {
  const { origin = '', pathname = '' } = otlpEndpoint(settings) ?? {}
  return `${origin}${pathname.replace(/\/+$/, '')}/v1/${signal}`
}

/** Trusts a bundle besides the system's CAs, as the bundle is when a connection is opened. */
class BundleAgent extends Agent {
  readonly #read: () => string

  constructor(options: AgentOptions, read: () => string) {
    super(options)
    this.#read = read
  }

  /** Connections are kept by this name: one that was opened under another bundle serves no more. */
  override getName(options?: AgentOptions): string {
    return super.getName({ ...options, ca: this.#trusted() } as AgentOptions)
  }

  override createConnection(...[options, callback]: Parameters<Agent['createConnection']>) {
    return super.createConnection({ ...options, ca: this.#trusted() } as AgentOptions, callback)
  }

  #trusted(): string[] {
    return [...getCACertificates('default'), this.#read()]
  }
}
