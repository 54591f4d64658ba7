import { Agent as PlainAgent } from 'node:http'
import { Agent, type AgentOptions } from 'node:https'
import { resolve } from 'node:path'
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls'
import { otlpEndpoint } from '../../config/otlp-endpoint.ts'
import { secretFile } from '../../config/secret-file.ts'
import type { OpenTelemetrySettings } from '../../config/telemetry.ts'

const EXPORT_MS = 10_000
const CONNECTIONS = 4

/** The common settings of both exporters: options of `OTLPExporterNodeConfigBase`, except the URL. */
export interface ExportOptions {
  readonly headers: () => Promise<Record<string, string>>
  readonly httpAgentOptions: (protocol: string) => PlainAgent
  readonly timeoutMillis: number
}

/** Returns the options for the exporters. Secret headers and the CA bundle are reread when their files change. */
export function exportOptions(settings: OpenTelemetrySettings, directory: string): ExportOptions {
  const { headers = {}, sensitiveHeaders = [], caBundleFile } = settings
  const secrets = sensitiveHeaders.map(({ name, file }) => ({ name, read: secretFile(resolve(directory, file)) }))
  const bundle = caBundleFile === undefined ? undefined : new Bundle(resolve(directory, caBundleFile))
  return {
    // An error here fails the attempt: nothing is sent without its credential, or to an untrusted server.
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

/** Returns the URL of one signal: below the endpoint, as OTLP over HTTP defines it. */
export function signalUrl(settings: OpenTelemetrySettings, signal: 'traces' | 'metrics'): string {
  const { origin = '', pathname = '' } = otlpEndpoint(settings) ?? {}
  return `${origin}${pathname.replace(/\/+$/, '')}/v1/${signal}`
}

/** The trusted CAs: the system's, and those of a file as it was last read. */
class Bundle {
  version = 0
  trusted: SecureContext | undefined
  readonly #read: () => string
  #text: string | undefined

  constructor(file: string) {
    this.#read = secretFile(file)
  }

  /** Reads the file if it has changed. Throws if it can't be read or holds no certificates. */
  read(): void {
    const text = this.#read()
    if (text === this.#text) return
    this.trusted = createSecureContext({ ca: [...getCACertificates('default'), text] })
    this.#text = text
    this.version++
  }
}

/** Opens connections to servers that a bundle trusts. Nothing here throws: sockets that close ask for their name. */
class BundleAgent extends Agent {
  readonly #bundle: Bundle

  constructor(options: AgentOptions, bundle: Bundle) {
    super(options)
    this.#bundle = bundle
  }

  /** Returns the name under which connections are kept: one that was opened under another bundle is not reused. */
  override getName(options?: AgentOptions): string {
    return `${super.getName(options)}:${this.#bundle.version}`
  }

  override createConnection(...[options, callback]: Parameters<Agent['createConnection']>) {
    return super.createConnection({ ...options, secureContext: this.#bundle.trusted } as AgentOptions, callback)
  }
}
