/**
 * What a JWT costs beside no authentication, and a credential of each caller for the backends beside that: the same calls
 * through four gateways over the same backends, in turn, by 64 callers with a token each. Two processes that run the same
 * differ by up to a fifth, so all of it is done with several sets of processes, and summed. Goals: at least 90 % of the
 * anonymous calls per CPU-second with JWTs, 85 % with exchanged tokens, or with those that a provider gave at login, as well.
 * Usage: jwt.ts [seconds a measurement] [sets of processes]
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import { load } from './load.ts'
import { cpuSeconds, endParts, type Part, start, tell } from './parts.ts'
import { type Era, openSession, toolCall } from './requests.ts'

const TURNS = Number(process.argv[2] ?? 6)
const SETS = Number(process.argv[3] ?? 3)
const WARM_UP = { seconds: 60, each: 2_000 }
const WORKERS = 16
const CALLERS = 64
const AUDIENCE = 'https://bench.example'
const GOALS = { JWT: 0.9, exchange: 0.85, upstreamInject: 0.85 } as const
const PROVIDER = 'code'
const local = (script: string) => new URL(script, import.meta.url)

/** An issuer on loopback and one token of each caller; its keys are read once, at the start. */
async function startIssuer() {
  const { publicKey, privateKey } = await generateKeyPair('RS256')
  const keys = [{ ...(await exportJWK(publicKey)), kid: 'bench', alg: 'RS256', use: 'sig' }]
  const server = createServer((request, response) => {
    const metadata = { issuer, jwks_uri: `${issuer}/keys` }
    const issued_token_type = 'urn:ietf:params:oauth:token-type:access_token'
    const exchanged = { access_token: 'x'.repeat(900), token_type: 'Bearer', issued_token_type, expires_in: 7200 }
    const answers: Record<string, object> = { '/keys': { keys }, '/token': exchanged }
    response.end(JSON.stringify(answers[request.url ?? ''] ?? metadata))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const mint = (subject: string) =>
    new SignJWT({ scope: 'openid tools:call', groups: ['a', 'b', 'c'], tsid: subject })
      .setProtectedHeader({ alg: 'RS256', kid: 'bench', typ: 'at+jwt' })
      .setIssuer(issuer)
      .setAudience(AUDIENCE)
      .setSubject(subject)
      .setIssuedAt()
      .setExpirationTime('2h')
      .sign(privateKey)
  const subjects = Array.from({ length: CALLERS }, (_, index) => `caller-${index}`)
  const tokens = await Promise.all(subjects.map(mint))
  return { issuer, subjects, tokens, close: () => void server.close() }
}

async function startGateway(
  file: string,
  incomingAuth: object,
  backends: readonly Part[],
  more = {},
  ...args: string[]
): Promise<Part> {
  const named = backends.map(({ origin }, index) => ({ name: `b${index}`, url: `${origin}/mcp`, ...more }))
  await writeFile(
    file,
    JSON.stringify({ name: 'bench', namespace: 'default', role: 'gateway', incomingAuth, backends: named }),
  )
  return start(local('gateway-process.ts'), file, ...args)
}

/** What was done and what it took, by the order of the ways. */
interface Sum {
  requests: number
  cpu: number
}

/** One set of processes; adds to the sums. */
async function measure(
  era: Era,
  directory: string,
  { issuer, subjects, tokens }: Awaited<ReturnType<typeof startIssuer>>,
  sums: Sum[],
) {
  const backends = [await start(local('bare-backend.ts'), era), await start(local('bare-backend.ts'), era)]
  const logins = join(directory, `${era}-logins.json`)
  await writeFile(logins, JSON.stringify({ issuer, provider: PROVIDER, accessToken: 'x'.repeat(900), subjects }))
  const oidc = { issuer, audience: AUDIENCE, scopes: ['tools:call'] }
  const ways = [
    { part: await startGateway(join(directory, `${era}-open.yaml`), { type: 'anonymous' }, backends), tokens: [] },
    { part: await startGateway(join(directory, `${era}-jwt.yaml`), { type: 'oidc', oidc }, backends), tokens },
    {
      part: await startGateway(join(directory, `${era}-exchange.yaml`), { type: 'oidc', oidc }, backends, {
        credential: { type: 'tokenExchange', tokenExchange: { tokenUrl: `${issuer}/token` } },
      }),
      tokens,
    },
    {
      part: await startGateway(
        join(directory, `${era}-inject.yaml`),
        { type: 'oidc', oidc },
        backends,
        { credential: { type: 'upstreamInject', upstreamInject: { providerName: PROVIDER } } },
        logins,
      ),
      tokens,
    },
  ]

  const send = async ({ part, tokens }: (typeof ways)[number], duration: { seconds: number; each?: number }) => {
    const tokenOf = (worker: number, count: number) => tokens[(worker + count * WORKERS) % CALLERS]
    // A session is its caller's: there a worker is one caller.
    const callerOf = (worker: number, count: number) => tokenOf(worker, era === 'legacy' ? 0 : count)
    const open = (_: unknown, worker: number) => openSession(`${part.origin}/mcp`, callerOf(worker, 0))
    const sessions = era === 'legacy' ? await Promise.all(Array.from({ length: WORKERS }, open)) : []
    const request = (worker: number, count: number) => {
      const call = toolCall(era, sessions[worker], `b${(worker + count) % 2}_tool_${count % 20}`, worker, count)
      const token = callerOf(worker, count)
      return token === undefined ? call : { ...call, headers: [...call.headers, 'authorization', `Bearer ${token}`] }
    }
    return load({ origin: part.origin, workers: WORKERS, ...duration, request })
  }
  for (const way of ways) await send(way, WARM_UP)
  for (let left = TURNS; left > 0; left--)
    for (const [index, way] of ways.entries()) {
      const sum = (sums[index] ??= { requests: 0, cpu: 0 })
      const before = await tell(way.part)
      const { requests } = await send(way, { seconds: 1 })
      sum.requests += requests
      sum.cpu += cpuSeconds(await tell(way.part)) - cpuSeconds(before)
    }
  endParts()
}

function report(era: Era, sums: readonly Sum[]): void {
  const [open = 0, ...others] = sums.map(({ requests, cpu }) => requests / cpu)
  console.log(
    `${era}: tools/call ×${WORKERS}, ${SETS} sets of processes: anonymous ${open.toFixed(0)} calls a CPU-second`,
  )
  for (const [index, [name, goal]] of Object.entries(GOALS).entries()) {
    const calls = others[index] ?? 0
    const share = calls / open
    console.log(
      `${era}: ${name.padEnd(14)} ${calls.toFixed(0).padStart(6)} calls a CPU-second, ${(share * 100).toFixed(1).padStart(5)} % ` +
        `(goal: at least ${goal * 100} %${share < goal ? '; missed' : ''})`,
    )
  }
}

const directory = await mkdtemp(join(tmpdir(), 'portico-bench-jwt-'))
const issuer = await startIssuer()
try {
  for (const era of ['modern', 'legacy'] as const) {
    const sums: Sum[] = []
    for (let left = SETS; left > 0; left--) await measure(era, directory, issuer, sums)
    report(era, sums)
  }
} finally {
  endParts()
  issuer.close()
  await rm(directory, { recursive: true })
}
