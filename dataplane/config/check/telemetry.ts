import { HEADER_NAME, HEADER_VALUE } from '../../../crds/settings/header-rules.ts'
import { escapeStep } from '../../../crds/settings/json.ts'
import type { AuditSettings } from '../audit/audit.ts'
import type { Finding } from '../load.ts'
import { trustedNetworks } from './address.ts'
import { addressFindings } from './url.ts'

const isName = new RegExp(HEADER_NAME)
const isValue = new RegExp(HEADER_VALUE)
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

export function telemetryFindings(
  telemetry: { readonly openTelemetry?: Sending } | undefined,
  at: string,
): readonly Finding[] {
  const settings = telemetry?.openTelemetry
  if (settings === undefined) return []
  const here = `${at}/openTelemetry`
  return [
    ...endpointFindings(settings, here),
    ...headerFindings(settings, here),
    ...(settings.caBundleFile !== undefined && settings.insecure === true
      ? [{ pointer: `${here}/caBundleFile`, message: 'has no use when insecure is true' }]
      : []),
    ...(settings.resourceAttributes?.['service.name'] === undefined
      ? []
      : [{ pointer: `${here}/resourceAttributes/service.name`, message: 'is set by serviceName' }]),
  ]
}

function endpointFindings(settings: Sending, at: string): readonly Finding[] {
  const { endpoint, insecure } = settings
  if (endpoint === undefined) return []
  const pointer = `${at}/endpoint`
  const url = otlpEndpoint(settings)
  if (url === undefined) return [{ pointer, message: 'is not a URL of HTTP' }]
  return [
    ...(url.username !== '' || url.password !== ''
      ? [{ pointer, message: 'must hold no credentials: they belong in sensitiveHeaders' }]
      : []),
    ...(url.search !== '' || url.hash !== '' || endpoint.includes('#')
      ? [{ pointer, message: 'must have no query and no fragment' }]
      : []),
    ...(url.protocol === 'http:' && insecure !== true
      ? [{ pointer, message: 'an http:// endpoint needs insecure: true' }]
      : []),
    ...addressFindings(url.href, pointer, { allowPrivateIP: true }),
  ]
}

function headerFindings({ headers = {}, sensitiveHeaders = [] }: Sending, at: string): Finding[] {
  const named = [
    ...Object.keys(headers).map((name) => ({ name, pointer: `${at}/headers/${escapeStep(name)}` })),
    ...sensitiveHeaders.map(({ name }, index) => ({ name, pointer: `${at}/sensitiveHeaders/${index}/name` })),
  ]
  const seen = new Set<string>()
  const findings: Finding[] = []
  for (const { name, pointer } of named) {
    const lower = name.toLowerCase()
    if (!isName.test(name)) findings.push({ pointer, message: 'is not a header name' })
    else if (RESERVED.has(lower)) findings.push({ pointer, message: 'this header is set by the exporter itself' })
    else if (seen.has(lower)) findings.push({ pointer, message: 'this header is set twice' })
    seen.add(lower)
  }
  for (const [name, value] of Object.entries(headers))
    if (!isValue.test(value))
      findings.push({ pointer: `${at}/headers/${escapeStep(name)}`, message: 'is not a header value' })
  return findings
}

export function auditFindings(
  audit: AuditSettings | undefined,
  known: ReadonlySet<string>,
  at = '/audit',
): readonly Finding[] {
  if (audit === undefined) return []
  return [
    ...(['eventTypes', 'excludeEventTypes'] as const).flatMap((list) =>
      (audit[list] ?? []).flatMap((type, index) =>
        known.has(type)
          ? []
          : [
              {
                pointer: `${at}/${list}/${index}`,
                message: `there is no event ${JSON.stringify(type)}; the events are ${[...known].sort().join(', ')}`,
              },
            ],
      ),
    ),
    ...(audit.trustedProxies ?? []).flatMap((text, index) => proxyFindings(text, `${at}/trustedProxies/${index}`)),
  ]
}

function proxyFindings(text: string, pointer: string): readonly Finding[] {
  try {
    trustedNetworks([text])
    return []
  } catch (error) {
    return [{ pointer, message: (error as TypeError).message }]
  }
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
