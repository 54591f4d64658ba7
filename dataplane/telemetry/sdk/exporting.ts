import { Agent as PlainAgent } from 'node:http'
import { Agent, type AgentOptions } from 'node:https'
import { resolve } from 'node:path'
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls'
import { otlpEndpoint } from '../../config/otlp-endpoint.ts'
import { secretFile } from '../../config/secret-file.ts'
import type { OpenTelemetrySettings } from '../../config/telemetry.ts'

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
  const bundle = caBundleFile === undefined ? undefined : new Bundle(resolve(directory, caBundleFile))
  return {
    // Called before each try. What throws here fails it: nothing is sent without its credential, or to whom is not trusted.
    async headers() {
      bundle?.read()
      return { ...headers, ...Object.fromEntries(secrets.map(({ name, read }) => [name, read()])) }
    },
    httpAgentOptions(protocol) {
      const options = { keepAlive: true, maxSockets: CONNECTIONS, timeout: EXPORT_MS }
      if (protocol === 'http:') return new PlainAgent(options)
      return bundle === undefined ? new Agent(options) : new BundleAgent(options, bundle)
    },
    timeoutMillis: EXPORT_MS,
  }
}

/** The URL of one signal: below the endpoint, as OTLP over HTTP has it. */
export function signalUrl(settings: OpenTelemetrySettings, signal: 'traces' | 'metrics'): string {
  const { origin = '', pathname = '' } = otlpEndpoint(settings) ?? {}
  return `${origin}${pathname.replace(/\/+$/, '')}/v1/${signal}`
}

/** CAs that are trusted: the system's, and those of a file as it was read last. */
class Bundle {
  /** Counts the contents that the file has had. */
  version = 0
  trusted: SecureContext | undefined
  readonly #read: () => string
  #text: string | undefined

  constructor(file: string) {
    this.#read = secretFile(file)
  }

  /** Reads the file where it has changed. Throws where it can't be read, and where it holds no certificates. */
  read(): void {
    const text = this.#read()
    if (text === this.#text) return
    this.trusted = createSecureContext({ ca: [...getCACertificates('default'), text] })
    this.#text = text
    this.version++
  }
}

/** Opens connections to whom a bundle trusts. Nothing here throws: sockets that close ask for their name. */
class BundleAgent extends Agent {
  readonly #bundle: Bundle

  constructor(options: AgentOptions, bundle: Bundle) {
    super(options)
    this.#bundle = bundle
  }

  /** Connections are kept by this name: one that was opened under another bundle serves no more. */
  override getName(options?: AgentOptions): string {
    return `${super.getName(options)}:${this.#bundle.version}`
  }

  override createConnection(...[options, callback]: Parameters<Agent['createConnection']>) {
    return super.createConnection({ ...options, secureContext: this.#bundle.trusted } as AgentOptions, callback)
  }
}
