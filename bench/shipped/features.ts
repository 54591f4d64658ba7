import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import { definitionDigest } from '../../crds/settings/definition-digest.ts'
import { TOOLS } from '../gateway/bare-tools.ts'

/**
 * The features of a gateway, each on its own, and the first four together (`all`). `scopes` and `proofs` need tokens,
 * so they are compared with `jwt`.
 */
export const FEATURES = ['none', 'jwt', 'policies', 'telemetry', 'audit', 'all', 'pins', 'scopes', 'proofs'] as const
export type Feature = (typeof FEATURES)[number]

/** An identity provider with a token for each caller, and a receiver of telemetry. */
export interface Surroundings {
  readonly issuer: string
  readonly subjects: readonly string[]
  readonly tokens: readonly string[]
  readonly receiver: string
  /** Issues a token for a caller, with additional claims. */
  mint(subject: string, claims?: object): Promise<string>
  received(): number
  close(): void
}

const CALLERS = 64
export const AUDIENCE = 'https://bench.example'

export async function startSurroundings(): Promise<Surroundings> {
  const { publicKey, privateKey } = await generateKeyPair('RS256')
  const keys = [{ ...(await exportJWK(publicKey)), kid: 'bench', alg: 'RS256', use: 'sig' }]
  const provider = await serve((request, response) => {
    const metadata = { issuer: provider.origin, jwks_uri: `${provider.origin}/keys` }
    const issued_token_type = 'urn:ietf:params:oauth:token-type:access_token'
    const exchanged = { access_token: 'x'.repeat(900), token_type: 'Bearer', issued_token_type, expires_in: 7200 }
    const answers: Record<string, object> = { '/keys': { keys }, '/token': exchanged }
    response.end(JSON.stringify(answers[request.url ?? ''] ?? metadata))
  })
  let bytes = 0
  const receiver = await serve((request, response) => {
    request.on('data', (chunk: Buffer) => {
      bytes += chunk.length
    })
    request.on('end', () => response.writeHead(200, { 'content-type': 'application/x-protobuf' }).end())
  })
  const mint = (subject: string, claims: object = {}) =>
    new SignJWT({ scope: 'openid tools:call', groups: ['a', 'b', 'c'], level: 5, tsid: subject, ...claims })
      .setProtectedHeader({ alg: 'RS256', kid: 'bench', typ: 'at+jwt' })
      .setIssuer(provider.origin)
      .setAudience(AUDIENCE)
      .setSubject(subject)
      .setIssuedAt()
      .setExpirationTime('12h')
      .sign(privateKey)
  const subjects = Array.from({ length: CALLERS }, (_, index) => `caller-${index}`)
  return {
    issuer: provider.origin,
    subjects,
    tokens: await Promise.all(subjects.map((subject) => mint(subject))),
    mint,
    receiver: receiver.origin,
    received: () => bytes,
    close() {
      provider.close()
      receiver.close()
    },
  }
}

async function serve(listener: RequestListener) {
  const server = createServer(listener)
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const close = () => {
    server.close()
    server.closeAllConnections()
  }
  return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close }
}

/**
 * Twenty policies: two permit, eight forbid tools by a claim, ten by an argument; these apply to a quarter of the
 * calls.
 */
const policies = [
  ...['b0', 'b1'].map(
    (backend) => `permit(principal, action == Action::"call_tool", resource in Backend::"${backend}");`,
  ),
  ...Array.from({ length: 18 }, (_, index) =>
    index < 8
      ? `forbid(principal, action == Action::"call_tool", resource == Tool::"b0_tool_${index * 2}") when { principal has claim_level && principal.claim_level < 3 };`
      : `forbid(principal, action == Action::"call_tool", resource == Tool::"b${index % 2}_tool_${index}") when { context has arg_message && context.arg_message like "secret*" };`,
  ),
]

const has = (feature: Feature, wanted: Feature) => feature === wanted || feature === 'all'

/** Tells whether a gateway with this feature needs tokens. */
export const needsTokens = (feature: Feature): boolean =>
  has(feature, 'jwt') || feature === 'scopes' || feature === 'proofs'

/** Fifty rules with a hundred patterns each; every second call matches some of them. */
export const scopeRules = Array.from({ length: 50 }, (_, index) => ({
  name: `rule-${index}`,
  tools: [`b0_tool_${index}`, ...Array.from({ length: 99 }, (_, other) => `*_${index}_drop${other}?`)],
  scopes: ['tools:call'],
}))

/** Pins of all tools of a backend. */
const pinning = {
  mode: 'enforce',
  pins: { tools: Object.fromEntries(TOOLS.map((tool) => [tool.name, [definitionDigest(JSON.stringify(tool))]])) },
}

/** Additional settings of each backend. */
export const buildBackendSettings = (feature: Feature): object => (feature === 'pins' ? { pinning } : {})

export const buildOidc = ({ issuer }: Surroundings): object => ({
  type: 'oidc',
  oidc: { issuer, audience: AUDIENCE, scopes: ['tools:call'] },
})

/** Sends metrics and a share of the traces to the receiver. */
export const buildOpenTelemetry = ({ receiver }: Surroundings, samplingRate = '0.05'): object => ({
  enabled: true,
  endpoint: receiver,
  insecure: true,
  tracing: { enabled: true, samplingRate },
  metrics: { enabled: true },
})

/** Environment variables of a gateway that exports each second, so that exports fall into turns. */
export const EXPORTS_EACH_SECOND = { OTEL_METRIC_EXPORT_INTERVAL: '1000', OTEL_BSP_SCHEDULE_DELAY: '1000' }

/** Returns the settings of a gateway without its backends, b0 and b1. */
export const buildSettings = (feature: Feature, surroundings: Surroundings, directory: string): object => ({
  ...(needsTokens(feature) && {
    incomingAuth: {
      ...buildOidc(surroundings),
      ...(feature === 'scopes' && { scopeRules }),
      ...(feature === 'proofs' && { dpop: { mode: 'optional' } }),
    },
  }),
  ...(has(feature, 'policies') && { authz: { policies } }),
  ...(has(feature, 'telemetry') && {
    telemetry: { openTelemetry: buildOpenTelemetry(surroundings), prometheus: { enabled: true } },
  }),
  ...(has(feature, 'audit') && { audit: { enabled: true, logFile: join(directory, 'audit.log') } }),
})
