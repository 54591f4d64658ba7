/**
 * What a JWT costs beside no authentication, and a credential of each caller for the backends beside that: the same calls
 * through four gateways over the same backends, in short turns, by 64 callers with a token each. Goals: at least 90 % of
 * the anonymous calls per CPU-second with JWTs, 85 % with exchanged tokens, or with those that a provider gave at login.
 *
 * Processes that run the same differ by a tenth and more, however long they are measured: by what V8 has inlined, and by
 * what lies beside what in memory. So all four gateways are in one process, where these are the same for all of them, and
 * the whole is done with several such sets. Each tells what share of the anonymous calls the others reach; what is
 * reported is the median of these shares, with its standard error. What goes by the clock alone (the lists of callers,
 * asked for anew every 30 s) is left out: with turns it would count several times, in some sets and not in others.
 * Usage: jwt.ts [seconds a gateway is measured in each set] [sets of processes]
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import { estimate, verdict } from './estimate.ts'
import { load } from './load.ts'
import { cpuSeconds, endParts, type Part, start, tell } from './parts.ts'
import { type Era, openSession, toolCall } from './requests.ts'

/** In seconds. Long enough for what a process is asked about its time, short enough that all gateways see the same machine. */
const TURN = 0.5
const TURNS = Math.ceil(Number(process.argv[2] ?? 4) / TURN)
const SETS = Number(process.argv[3] ?? 7)
/** All ways in several rounds: what V8 learns from one makes it compile anew what it has compiled for another. */
const WARM_UP = { rounds: 3, seconds: 60, each: 500 }
/** The lists of callers are asked for at the start alone. */
const LONGER_THAN_A_SET = '1h'
const WORKERS = 16
const CALLERS = 64
const AUDIENCE = 'https://bench.example'
const GOALS: Readonly<Record<string, number>> = { JWT: 0.9, exchange: 0.85, upstreamInject: 0.85 }
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

type Issuer = Awaited<ReturnType<typeof startIssuer>>

interface Rate {
  readonly name: string
  /** Calls a CPU-second. */
  readonly rate: number
}

/** One gateway, and what it has done and taken by now. */
interface Way {
  readonly name: string
  readonly part: Part
  readonly origin: string
  /** One of each caller; empty where callers are anonymous. */
  readonly tokens: readonly string[]
  /** One of each worker, where the era has sessions. */
  readonly sessions: readonly string[]
  requests: number
  cpu: number
}

/** Starts a set of processes: the backends, and the gateways of all ways, the anonymous one first. */
async function startSet(era: Era, directory: string, { issuer, subjects, tokens }: Issuer): Promise<readonly Way[]> {
  const backends = [await start(local('bare-backend.ts'), era), await start(local('bare-backend.ts'), era)]
  const logins = join(directory, 'logins.json')
  await writeFile(logins, JSON.stringify({ issuer, provider: PROVIDER, accessToken: 'x'.repeat(900), subjects }))
  const oidc = { type: 'oidc', oidc: { issuer, audience: AUDIENCE, scopes: ['tools:call'] } }
  const exchange = { credential: { type: 'tokenExchange', tokenExchange: { tokenUrl: `${issuer}/token` } } }
  const inject = { credential: { type: 'upstreamInject', upstreamInject: { providerName: PROVIDER } } }

  async function configFile(name: string, incomingAuth: object, more: object = {}): Promise<string> {
    const named = backends.map(({ origin }, index) => ({ name: `b${index}`, url: `${origin}/mcp`, ...more }))
    const failureHandling = { healthCheckInterval: LONGER_THAN_A_SET }
    const fixed = { name: 'bench', namespace: 'default', role: 'gateway', failureHandling }
    const file = join(directory, `${name}.json`)
    await writeFile(file, JSON.stringify({ ...fixed, incomingAuth, backends: named }))
    return file
  }
  const files = [
    await configFile('anonymous', { type: 'anonymous' }),
    await configFile('JWT', oidc),
    await configFile('exchange', oidc, exchange),
    `${await configFile('upstreamInject', oidc, inject)},${logins}`,
  ]
  const part = await start(local('gateways-process.ts'), ...files)
  const way = async (name: string, index: number): Promise<Way> => {
    const origin = part.origins[index] as string
    const ofCallers = index === 0 ? [] : tokens
    const open = (_: unknown, worker: number) => openSession(`${origin}/mcp`, ofCallers[worker])
    const sessions = era === 'legacy' ? await Promise.all(Array.from({ length: WORKERS }, open)) : []
    return { name, part, origin, tokens: ofCallers, sessions, requests: 0, cpu: 0 }
  }
  return Promise.all(['anonymous', 'JWT', 'exchange', 'upstreamInject'].map(way))
}

function send(
  era: Era,
  { origin, tokens, sessions }: Way,
  duration: { readonly seconds: number; readonly each?: number },
) {
  // A session is its caller's: there a worker is one caller.
  const callerOf = (worker: number, count: number) => worker + (era === 'legacy' ? 0 : count) * WORKERS
  const request = (worker: number, count: number) => {
    const call = toolCall(era, sessions[worker], `b${(worker + count) % 2}_tool_${count % 20}`, worker, count)
    const token = tokens[callerOf(worker, count) % CALLERS]
    return token === undefined ? call : { ...call, headers: [...call.headers, 'authorization', `Bearer ${token}`] }
  }
  return load({ origin, workers: WORKERS, ...duration, request })
}

async function turn(era: Era, way: Way): Promise<void> {
  const before = await tell(way.part)
  const { requests } = await send(era, way, { seconds: TURN })
  way.requests += requests
  way.cpu += cpuSeconds(await tell(way.part)) - cpuSeconds(before)
}

/** Calls a CPU-second through each gateway of one set of processes. */
async function measure(era: Era, directory: string, issuer: Issuer): Promise<readonly Rate[]> {
  const ways = await startSet(era, directory, issuer)
  for (let left = WARM_UP.rounds; left > 0; left--) for (const way of ways) await send(era, way, WARM_UP)
  for (let done = 0; done < TURNS; done++)
    // To and fro: none is always measured behind the same other one.
    for (const way of done % 2 === 0 ? ways : ways.toReversed()) await turn(era, way)
  endParts()
  return ways.map(({ name, requests, cpu }) => ({ name, rate: requests / cpu }))
}

const percent = (share: number): string => (share * 100).toFixed(1)

/** Tells what came of an era, by sets and in each by ways. */
function report(era: Era, sets: readonly (readonly Rate[])[]): void {
  for (const [index, { name }] of (sets[0] ?? []).entries()) {
    const calls = estimate(sets.map((set) => set[index]?.rate ?? Number.NaN)).median
    const shares = estimate(sets.map((set) => (set[index]?.rate ?? Number.NaN) / (set[0]?.rate ?? Number.NaN)))
    const goal = GOALS[name]
    const asked =
      goal === undefined
        ? ''
        : `, ${percent(shares.median).padStart(5)} ± ${percent(shares.error)} % (${percent(shares.least)} to ${percent(shares.most)}; ` +
          `goal: at least ${goal * 100} %: ${verdict(shares, goal)})`
    console.log(`${era}: ${name.padEnd(14)} ${calls.toFixed(0).padStart(6)} calls a CPU-second${asked}`)
  }
}

const directory = await mkdtemp(join(tmpdir(), 'portico-bench-jwt-'))
const issuer = await startIssuer()
try {
  for (const era of ['modern', 'legacy'] as const) {
    const sets: (readonly Rate[])[] = []
    for (let left = SETS; left > 0; left--) sets.push(await measure(era, directory, issuer))
    report(era, sets)
  }
} finally {
  endParts()
  issuer.close()
  await rm(directory, { recursive: true })
}
