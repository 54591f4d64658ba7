import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'

/** The features that a gateway can have on, each by itself and all together; nothing at first. */
export const FEATURES = ['none', 'jwt', 'policies', 'telemetry', 'audit', 'all'] as const
export type Feature = (typeof FEATURES)[number]

/** Who stands around the gateways: an identity provider with a token of each caller, and a receiver of telemetry. */
export interface Surroundings {
  readonly issuer: string
  readonly tokens: readonly string[]
  readonly receiver: string
  /** Bytes of telemetry so far. */
  received(): number
  close(): void
}

const CALLERS = 64
const AUDIENCE = 'https://bench.example'
/** Both eras' exports of metrics and traces fall into each turn that way. */
const EXPORT_MS = 1_000

export async function startSurroundings(): Promise<Surroundings> {
  const { publicKey, privateKey } = await generateKeyPair('RS256')
  const keys = [{ ...(await exportJWK(publicKey)), kid: 'bench', alg: 'RS256', use: 'sig' }]
  const provider = await serve((request, response) => {
    const answer = request.url === '/keys' ? { keys } : { issuer: provider.origin, jwks_uri: `${provider.origin}/keys` }
    response.end(JSON.stringify(answer))
  })
  let bytes = 0
  const receiver = await serve((request, response) => {
    request.on('data', (chunk: Buffer) => {
      bytes += chunk.length
    })
    request.on('end', () => response.writeHead(200, { 'content-type': 'application/x-protobuf' }).end())
  })
  const mint = (_: unknown, index: number) =>
    new SignJWT({ scope: 'openid tools:call', groups: ['a', 'b', 'c'], level: 5 })
      .setProtectedHeader({ alg: 'RS256', kid: 'bench', typ: 'at+jwt' })
      .setIssuer(provider.origin)
      .setAudience(AUDIENCE)
      .setSubject(`caller-${index}`)
      .setIssuedAt()
      .setExpirationTime('12h')
      .sign(privateKey)
  return {
    issuer: provider.origin,
    tokens: await Promise.all(Array.from({ length: CALLERS }, mint)),
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

/** Twenty of them: two that permit, eight that forbid tools by a claim, ten by an argument; these judge a quarter of the calls. */
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

/** Whether callers of a gateway with it need a token. */
export const needsTokens = (feature: Feature): boolean => has(feature, 'jwt')

/** The configuration of a gateway before two backends, b0 and b1, and its environment variables. */
export function configure(
  feature: Feature,
  backends: readonly { readonly origin: string }[],
  { issuer, receiver }: Surroundings,
  directory: string,
): { readonly config: object; readonly env: Readonly<Record<string, string>> } {
  const openTelemetry = {
    enabled: true,
    endpoint: receiver,
    insecure: true,
    tracing: { enabled: true, samplingRate: '0.05' },
    metrics: { enabled: true },
  }
  const oidc = { issuer, audience: AUDIENCE, scopes: ['tools:call'] }
  const config = {
    ...{ name: 'bench', namespace: 'default', role: 'gateway' },
    incomingAuth: needsTokens(feature) ? { type: 'oidc', oidc } : { type: 'anonymous' },
    backends: backends.map(({ origin }, index) => ({ name: `b${index}`, url: `${origin}/mcp` })),
    ...(has(feature, 'policies') && { authz: { policies } }),
    ...(has(feature, 'telemetry') && { telemetry: { openTelemetry, prometheus: { enabled: true } } }),
    ...(has(feature, 'audit') && { audit: { enabled: true, logFile: join(directory, 'audit.log') } }),
  }
  const every = String(EXPORT_MS)
  return {
    config,
    env: has(feature, 'telemetry') ? { OTEL_METRIC_EXPORT_INTERVAL: every, OTEL_BSP_SCHEDULE_DELAY: every } : {},
  }
}
