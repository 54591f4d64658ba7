/**
 * Makes calls, reconnects, resumes lost streams and reloads for a while. Checks every answer, and measures the gateway's
 * memory and open files. Fails if these grow. Usage: soak.ts [seconds, default 600]
 */
import { fork } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from 'undici'
import { eventually } from '../support/eventually.ts'
import { EventReader } from '../support/gateway/event-reader.ts'
import { BASE_HEADERS, modern, rpc } from '../support/gateway/post.ts'
import { startMcpServer } from '../support/servers/dual-server.ts'

export interface SoakReport {
  readonly calls: number
  readonly sessions: number
  /** Number of streams that were broken and resumed. */
  readonly resumed: number
  readonly reloads: number
  readonly seconds: number
  /** The first few errors; empty if there were none. */
  readonly wrong: readonly string[]
  /** Measured once the caches are full, and at the end, while no calls run. */
  readonly early: Measured
  readonly late: Measured
}

export interface Measured {
  /** Bytes after a garbage collection: the heap, and buffers outside it. */
  readonly heap: number
  readonly external: number
  readonly rss: number
  readonly files: number
}

const WORKERS = 6
/** Share of the time after which all caches have been filled. */
const WARM = 0.3
const PATH = '/mcp'

/** Gauges of a gateway that are 0 when nothing runs. */
const PASSING = /^portico_(sessions|streams|calls_active|memory_held_bytes)(\{.*)? (.+)$/gm
/** One line for each gauge, and a second one for streams. */
const PASSING_LINES = 5

/** Returns the lines of a gateway's metrics for running or held things. Throws if one is missing. */
async function listPending(adminOrigin: string): Promise<readonly string[]> {
  const metrics = await (await fetch(`${adminOrigin}/metrics`)).text()
  const lines = [...metrics.matchAll(PASSING)]
  if (lines.length !== PASSING_LINES) throw new Error(`the gateway does not tell what is under way: ${metrics}`)
  return lines.filter(([, , , value]) => value !== '0').map(([line]) => line)
}

/** Runs a gateway in a separate process under load. Calls `tell` after each part. */
export async function soak(seconds: number, tell: (line: string) => void = () => {}): Promise<SoakReport> {
  const directory = await mkdtemp(join(tmpdir(), 'portico-soak-'))
  const configFile = join(directory, 'gateway.yaml')
  const dual = await startMcpServer({ name: 'd' })
  const legacy = await startMcpServer({ name: 'l', mode: 'sessions' })
  const configure = async (round: number) => {
    const backends = [
      { name: 'd', url: dual.url },
      { name: 'l', url: legacy.url },
      // A third backend is added and removed, each time with another address.
      ...(round % 2 === 1 ? [{ name: 'extra', url: `${dual.url}?round=${round}` }] : []),
    ]
    const telemetry = { prometheus: { enabled: true } }
    const config = {
      name: 's',
      namespace: 'x',
      role: 'gateway',
      incomingAuth: { type: 'anonymous' },
      backends,
      telemetry,
    }
    const tools = round % 3 === 2 ? [{ workload: 'd', filter: ['echo', 'slow', 'steps', `round-${round}`] }] : []
    await writeFile(`${configFile}.new`, JSON.stringify({ ...config, aggregation: { tools } }))
    await rename(`${configFile}.new`, configFile)
  }
  await configure(0)
  const script = new URL('../../bench/gateway/gateway-process.ts', import.meta.url)
  const child = fork(script, [configFile], { execArgv: ['--expose-gc'] })
  const nextMessage = <T>() => new Promise<T>((resolve) => child.once('message', (message) => resolve(message as T)))
  const { port, adminOrigin } = await nextMessage<{ port: number; adminOrigin: string }>()
  const origin = `http://127.0.0.1:${port}`

  const counts = { calls: 0, sessions: 0, resumed: 0, reloads: 0 }
  const wrong: string[] = []
  const note = (text: string) => {
    if (wrong.length < 10) wrong.push(text)
  }

  async function measure(): Promise<Measured> {
    // A gateway releases finished work a little later, such as calls of clients that are gone and the memory reserved
    // for them.
    await eventually('nothing is under way', async () => (await listPending(adminOrigin)).length === 0).catch(
      async () => note(`nothing should be under way: ${await listPending(adminOrigin)}`),
    )
    // A second garbage collection may collect what the first has only released.
    for (let count = 0; count < 2; count++) {
      const first = nextMessage()
      child.send('tell')
      await first
    }
    const measured = nextMessage<Omit<Measured, 'files'>>()
    child.send('tell')
    const { heap, external, rss } = await measured
    return { heap, external, rss, files: readdirSync(`/proc/${child.pid}/fd`).length }
  }

  async function call(client: Client, message: string, session: Record<string, string> | undefined, backend: string) {
    const params = { name: `${backend}_echo`, arguments: { message } }
    const request =
      session === undefined ? modern('tools/call', params) : { body: rpc('tools/call', params), headers: {} }
    const headers = { ...BASE_HEADERS, ...request.headers, ...session }
    const { body, statusCode } = await client.request({ path: PATH, method: 'POST', headers, body: request.body })
    const text = await body.text()
    counts.calls++
    if (statusCode !== 200 || !text.includes(`${backend}: ${message}`)) note(`${statusCode} ${text.slice(0, 200)}`)
  }

  /** Makes a call whose stream breaks after its first event, and resumes it. */
  async function breakAndResume(session: Record<string, string>, backend: string): Promise<void> {
    const params = { name: `${backend}_steps`, arguments: { count: 3 }, _meta: { progressToken: 'p' } }
    const headers = { ...BASE_HEADERS, ...session }
    const url = `${origin}${PATH}`
    const broken = await EventReader.open(url, { method: 'POST', headers, body: rpc('tools/call', params) })
    await eventually('the first event', () => broken.events.length > 0)
    await broken.leave()
    const back = await EventReader.listen(url, session, broken.events[0]?.id ?? '')
    await eventually('the stream has ended', () => back.ended)
    counts.calls++
    counts.resumed++
    const [answer] = back.messages.slice(-1)
    if (answer?.result?.content?.[0]?.text !== '3 steps') note(`a stream that goes on: ${JSON.stringify(answer)}`)
  }

  /** The life of a client: connects, opens a session, listens, calls, disconnects, and ends its session. */
  async function runClient(worker: number, round: number): Promise<void> {
    const client = new Client(origin)
    const opening = await client.request({
      path: PATH,
      method: 'POST',
      headers: BASE_HEADERS,
      body: rpc('initialize', {
        protocolVersion: '2025-11-25',
        capabilities: {},
        clientInfo: { name: 's', version: '1' },
      }),
    })
    await opening.body.dump()
    const session = { 'mcp-session-id': String(opening.headers['mcp-session-id']) }
    counts.sessions++
    const breaking = new AbortController()
    const stream = new Client(origin)
    const listening = stream
      .request({
        path: PATH,
        method: 'GET',
        headers: { ...session, accept: 'text/event-stream' },
        signal: breaking.signal,
      })
      .then(({ body }) => body.dump({ limit: Number.MAX_SAFE_INTEGER }))
      .catch(() => {})
    for (let count = 0; count < 20; count++) {
      const backend = count % 2 === 0 ? 'd' : 'l'
      await call(client, `${worker}-${round}-${count}`, count % 3 === 0 ? undefined : session, backend)
    }
    await breakAndResume(session, round % 2 === 0 ? 'd' : 'l')
    // A call whose client disconnects before its answer.
    const params = { name: 'd_slow', arguments: { ms: 50 } }
    const request = modern('tools/call', params)
    const leaving = new AbortController()
    const left = new Client(origin)
    setTimeout(() => leaving.abort(), 10)
    await left
      .request({
        path: PATH,
        method: 'POST',
        headers: { ...BASE_HEADERS, ...request.headers },
        body: request.body,
        signal: leaving.signal,
      })
      .then(({ body }) => body.dump())
      .catch(() => {})
    if (round % 2 === 0) breaking.abort()
    const ending = await client.request({ path: PATH, method: 'DELETE', headers: session })
    await ending.body.dump()
    if (ending.statusCode !== 204) note(`the end of a session: ${ending.statusCode}`)
    await listening
    await Promise.all([client.destroy(), stream.destroy(), left.destroy()])
  }

  async function run(forSeconds: number): Promise<void> {
    const until = performance.now() + forSeconds * 1000
    const working = Array.from({ length: WORKERS }, async (_, worker) => {
      for (let round = 0; performance.now() < until; round++)
        await runClient(worker, round).catch((error) => note(`a client failed: ${(error as Error).message}`))
    })
    const changeUntilEnd = async () => {
      while (performance.now() < until) {
        await configure(++counts.reloads)
        // The recorded requests of the backends are not needed and would fill this process.
        for (const { seen } of [dual, legacy]) seen.length = 0
        if (counts.reloads % 5 === 0 && counts.reloads <= 50) dual.addTool(`round-${counts.reloads}`)
        await new Promise((resolve) => setTimeout(resolve, 700))
      }
      counts.reloads += counts.reloads % 6 === 0 ? 0 : 6 - (counts.reloads % 6)
      await configure(counts.reloads)
    }
    await Promise.all([...working, changeUntilEnd()])
  }

  try {
    await run(seconds * WARM)
    const early = await measure()
    tell(`warm: ${formatMeasured(early)}, ${counts.calls} calls`)
    let late = early
    const parts = Math.max(1, Math.round((seconds * (1 - WARM)) / 60))
    for (let part = 0; part < parts; part++) {
      await run((seconds * (1 - WARM)) / parts)
      late = await measure()
      const { calls, sessions, resumed, reloads } = counts
      tell(
        `${formatMeasured(late)}, ${calls} calls, ${sessions} sessions, ${resumed} streams resumed, ${reloads} reloads`,
      )
    }
    return { ...counts, seconds, wrong, early, late }
  } finally {
    child.disconnect()
    await Promise.all([dual.close(), legacy.close()])
    await rm(directory, { recursive: true })
  }
}

const MIB = 1024 * 1024
const formatMeasured = ({ heap, external, rss, files }: Measured) =>
  `heap ${(heap / MIB).toFixed(1)} MiB, buffers ${(external / MIB).toFixed(1)} MiB, rss ${(rss / MIB).toFixed(0)} MiB, ${files} files`

/** A younger process still grows to its normal size. */
const SETTLED_SECONDS = 300

/** The allowed growth after the warm-up: a share, or this many bytes if that is more. */
const bounds = {
  heap: { share: 0.1, bytes: 4 * MIB },
  external: { share: 0.25, bytes: 8 * MIB },
  // The allocator returns memory late, and hot code is compiled again.
  rss: { share: 0.25, bytes: 64 * MIB },
} as const

/** Returns what is wrong with the report; empty if nothing is. */
export function verdict({ early, late, wrong, calls, resumed, seconds }: SoakReport): readonly string[] {
  const grown = (['heap', 'external', 'rss'] as const).flatMap((what) => {
    if (what === 'rss' && seconds < SETTLED_SECONDS) return []
    const { share, bytes } = bounds[what]
    const more = late[what] - early[what]
    return more > Math.max(bytes, early[what] * share) ? [`${what} has grown by ${(more / MIB).toFixed(1)} MiB`] : []
  })
  return [
    ...wrong,
    ...(calls === 0 || resumed === 0 ? ['nothing was called'] : []),
    ...grown,
    ...(late.files > early.files + 20 ? [`${late.files - early.files} more files are open`] : []),
  ]
}

if (import.meta.main) {
  const report = await soak(Number(process.argv[2] ?? 600), console.log)
  const findings = verdict(report)
  for (const finding of findings) console.error(finding)
  const { seconds, calls, sessions, resumed, reloads, early, late } = report
  console.log(
    `${seconds} s, ${calls} calls, ${sessions} sessions, ${resumed} streams resumed, ${reloads} reloads\n` +
      `warm:       ${formatMeasured(early)}\nat the end: ${formatMeasured(late)}\n${findings.length === 0 ? 'flat' : 'not flat'}`,
  )
  process.exitCode = findings.length === 0 ? 0 : 1
}
