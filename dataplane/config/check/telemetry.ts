import type { AuditSettings } from '../audit/audit.ts'
import type { Finding, Findings } from '../load.ts'
import { trustedNetworks } from './address.ts'
import { headerNameFindings, headerValueFindings, listHeaders } from './headers.ts'
import { unusable } from './lists.ts'
import { addressFindings } from './url.ts'

/** Headers that belong to the connection and to the payload. */
const RESERVED: ReadonlySet<string> = new Set([
  'connection',
  'content-encoding',
  'content-length',
  'content-type',
  'host',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'user-agent',
])

interface Sending {
  readonly endpoint?: string
  readonly insecure?: boolean
  readonly headers?: Readonly<Record<string, string>>
  readonly sensitiveHeaders?: readonly { readonly name: string }[]
  readonly resourceAttributes?: Readonly<Record<string, string>>
  readonly caBundleFile?: string
}

export const telemetryFindings = (
  telemetry: { readonly openTelemetry?: Sending } | undefined,
  at: string,
): readonly Finding[] =>
  telemetry?.openTelemetry === undefined ? [] : [...sendingFindings(telemetry.openTelemetry, `${at}/openTelemetry`)]

function* sendingFindings(settings: Sending, at: string): Findings {
  yield* endpointFindings(settings, `${at}/endpoint`)
  yield* headerFindings(settings, at)
  if (settings.caBundleFile !== undefined && settings.insecure === true)
    yield { pointer: `${at}/caBundleFile`, message: 'has no use when insecure is true' }
  if (settings.resourceAttributes?.['service.name'] !== undefined)
    yield { pointer: `${at}/resourceAttributes/service.name`, message: 'is set by serviceName' }
}

function* endpointFindings(settings: Sending, pointer: string): Findings {
  const { endpoint, insecure } = settings
  if (endpoint === undefined) return
  const url = otlpEndpoint(settings)
  if (url === undefined) {
    yield { pointer, message: 'is not a URL of HTTP' }
    return
  }
  if (url.username !== '' || url.password !== '')
    yield { pointer, message: 'must hold no credentials: they belong in sensitiveHeaders' }
  if (url.search !== '' || url.hash !== '' || endpoint.includes('#'))
    yield { pointer, message: 'must have no query and no fragment' }
  if (url.protocol === 'http:' && insecure !== true)
    yield { pointer, message: 'an http:// endpoint needs insecure: true' }
  yield* addressFindings(url.href, pointer, { allowPrivateIP: true })
}

function* headerFindings({ headers = {}, sensitiveHeaders = [] }: Sending, at: string): Findings {
  const plain = listHeaders(headers, `${at}/headers`)
  const sensitive = sensitiveHeaders.map(({ name }, index) => ({
    name,
    pointer: `${at}/sensitiveHeaders/${index}/name`,
  }))
  yield* headerNameFindings([...plain, ...sensitive], RESERVED, 'exporter')
  yield* headerValueFindings(plain)
}

export function* auditFindings(audit: AuditSettings | undefined, known: ReadonlySet<string>): Findings {
  for (const list of ['eventTypes', 'excludeEventTypes'] as const)
    for (const [index, type] of (audit?.[list] ?? []).entries())
      if (!known.has(type))
        yield {
          pointer: `/audit/${list}/${index}`,
          message: `there is no event ${JSON.stringify(type)}; the events are ${[...known].sort().join(', ')}`,
        }
  for (const [index, text] of (audit?.trustedProxies ?? []).entries())
    yield* unusable(() => trustedNetworks([text]), `/audit/trustedProxies/${index}`)
}

/** Returns the base URL of the OTLP endpoint without a slash at its end; undefined if the text is no HTTP URL. */
export function otlpEndpoint({
  endpoint = '',
  insecure,
}: {
  readonly endpoint?: string
  readonly insecure?: boolean
}): URL | undefined {
  const text = endpoint.includes('://') ? endpoint : `${insecure === true ? 'http' : 'https'}://${endpoint}`
  const url = URL.parse(text)
  return url !== null && /^https?:$/.test(url.protocol) ? url : undefined
}
