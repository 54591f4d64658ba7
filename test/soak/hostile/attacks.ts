/** Attacks on a gateway's memory. An attack adds its open connections to `held`; the caller closes them. */
import { type Agent, request } from 'undici'
import { BASE_HEADERS, modern, rpc } from '../../support/gateway/post.ts'
import { buildHead, type Connection, open, post, type Target } from './connection.ts'

export interface Attacked extends Target {
  readonly origin: string
  /** Sends requests from the attacker's address. */
  readonly dispatcher: Agent
}

export interface Attack {
  readonly name: string
  /** The number of repetitions in the long run; a shorter run has fewer. */
  readonly count: number
  /** Attacks, and returns how many answers had which status. */
  run(at: Attacked, count: number, connections: Connection[]): Promise<Record<string, number>>
}

const MIB = 1024 * 1024
const big = 'x'.repeat(7.5 * MIB)

const tally = (statuses: readonly (number | undefined)[]): Record<string, number> => {
  const counts: Record<string, number> = {}
  for (const status of statuses) counts[String(status)] = (counts[String(status)] ?? 0) + 1
  return counts
}

/** Calls a function `count` times, some at a time. */
async function repeat<T>(count: number, atOnce: number, once: (index: number) => Promise<T>): Promise<T[]> {
  const results: T[] = []
  let next = 0
  const runWorker = async () => {
    while (next < count) {
      const index = next++
      results[index] = await once(index)
    }
  }
  await Promise.all(Array.from({ length: atOnce }, runWorker))
  return results
}

/** Sends a request and reads its answer to the end. */
async function send(at: Attacked, body: string | Buffer, headers: Readonly<Record<string, string>> = {}) {
  try {
    const options = {
      method: 'POST',
      headers: { ...BASE_HEADERS, ...headers },
      body,
      dispatcher: at.dispatcher,
    } as const
    const answer = await request(`${at.origin}/mcp`, options)
    await answer.body.dump({ limit: Number.MAX_SAFE_INTEGER })
    return { status: answer.statusCode, session: String(answer.headers['mcp-session-id'] ?? '') }
  } catch {
    return { status: undefined, session: '' }
  }
}

const initialize = (protocolVersion: string, capabilities: object = {}) =>
  rpc('initialize', { protocolVersion, capabilities, clientInfo: { name: 'h', version: '1' } })

/** Opens a session and returns the headers for its requests. */
async function sessionAt(at: Attacked, protocolVersion = '2025-11-25'): Promise<Record<string, string>> {
  const { session } = await send(at, initialize(protocolVersion))
  return { 'mcp-session-id': session, 'mcp-protocol-version': protocolVersion }
}

const call = (name: string, args: object = {}, id: unknown = 1, meta: object = {}) =>
  rpc('tools/call', { name, arguments: args, _meta: { progressToken: 'p', ...meta } }, id)

function modernCall(name: string, args: object = {}, capabilities: object = {}) {
  return modern('tools/call', {
    name,
    arguments: args,
    _meta: {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientCapabilities': capabilities,
      progressToken: 'p',
    },
  })
}

async function hold(connections: Connection[], opened: Promise<Connection>): Promise<void> {
  connections.push(await opened)
}

/** Returns the status of each held connection whose answer has begun. */
async function statuses(connections: readonly Connection[], from = 0): Promise<Record<string, number>> {
  const waiting = new Promise<undefined>((resolve) => setTimeout(resolve, 3_000, undefined))
  return tally(await Promise.all(connections.slice(from).map(({ status }) => Promise.race([status, waiting]))))
}

const attack = (name: string, count: number, run: Attack['run']): Attack => ({ name, count, run })

/** The attacks. The backends are named `m` (stateless) and `l` (sessions). */
export const attacks: readonly Attack[] = [
  attack('sessions opened with 7.5 MiB of capabilities', 65, async (at, count) =>
    tally(
      (
        await repeat(count, 4, () => send(at, initialize('2025-11-25', { elicitation: {}, experimental: { big } })))
      ).map(({ status }) => status),
    ),
  ),
  attack('listeners with 7.5 MiB in _meta', 60, async (at, count, connections) => {
    await repeat(count, 4, async () => {
      const meta = {
        'io.modelcontextprotocol/protocolVersion': '2026-07-28',
        'io.modelcontextprotocol/clientCapabilities': {},
        big,
      }
      const { body, headers } = modern('subscriptions/listen', {
        notifications: { toolsListChanged: true },
        _meta: meta,
      })
      await hold(connections, post(at, body, headers))
    })
    return statuses(connections)
  }),
  attack('a batch of 20 calls with answers of 40 MiB', 1, async (at, count) => {
    const session = await sessionAt(at, '2025-03-26')
    const body = `[${Array.from({ length: 20 }, (_, id) => call(id % 2 === 0 ? 'm_large' : 'l_large', {}, id)).join()}]`
    return tally((await repeat(count, 1, () => send(at, body, session))).map(({ status }) => status))
  }),
  attack('batches of 20 calls with answers of 40 MiB that nobody reads', 8, async (at, count, connections) => {
    const session = await sessionAt(at, '2025-03-26')
    const body = `[${Array.from({ length: 20 }, (_, id) => call(id % 2 === 0 ? 'm_large' : 'l_large', {}, id)).join()}]`
    await repeat(count, 4, () => hold(connections, post(at, body, session)))
    return statuses(connections)
  }),
  attack('notifications to clients that do not read', 40, async (at, count, connections) => {
    const session = await sessionAt(at)
    await repeat(count, 8, async (index) => {
      const { body, headers } = modernCall(index % 4 === 0 ? 'm_chat' : 'l_chat')
      await hold(connections, index % 2 === 0 ? post(at, body, headers) : post(at, call('l_chat', {}, index), session))
    })
    return statuses(connections)
  }),
  attack('answers of 40 MiB that nobody reads', 200, async (at, count, connections) => {
    const session = await sessionAt(at)
    await repeat(count, 8, async (index) => {
      const { body, headers } = modernCall('m_large')
      await hold(connections, index % 2 === 0 ? post(at, body, headers) : post(at, call('l_large', {}, index), session))
    })
    return statuses(connections)
  }),
  attack('answers of 60 KiB that nobody reads, pipelined', 100, async (at, count, connections) => {
    await repeat(count, 8, async () => {
      const { body, headers } = modernCall('m_medium')
      const one = buildHead('POST', { ...BASE_HEADERS, ...headers }, Buffer.byteLength(body)) + body
      await hold(connections, open(at, [one.repeat(64)]))
    })
    return statuses(connections)
  }),
  attack('bodies of 8 MiB that are sent slowly', 200, async (at, count, connections) => {
    await repeat(count, 8, async () => {
      const { headers } = modernCall('m_echo')
      await hold(connections, open(at, [buildHead('POST', { ...BASE_HEADERS, ...headers }, 8 * MIB), Buffer.from(big)]))
    })
    return statuses(connections)
  }),
  attack('calls with 7.5 MiB of arguments that no backend answers', 60, async (at, count, connections) => {
    await repeat(count, 4, async () => {
      const { body, headers } = modernCall('m_hang', { big })
      await hold(connections, post(at, body, headers))
    })
    return statuses(connections)
  }),
  attack('the same in sessions, by clients that leave', 60, async (at, count) => {
    const session = await sessionAt(at)
    await repeat(count, 4, async (index) => {
      const { socket, status } = await post(at, call('l_hang', { big }, index), session)
      await Promise.race([status, new Promise((resolve) => setTimeout(resolve, 200))])
      socket.destroy()
    })
    return {}
  }),
  attack('bodies of 2.5 million empty arrays', 20, async (at, count, connections) => {
    const nested = `[${'[],'.repeat(2_500_000)}[]]`
    await repeat(count, 4, async () => {
      const { body, headers } = modernCall('m_hang', { nested: 0 })
      await hold(connections, post(at, body.replace('"nested":0', `"nested":${nested}`), headers))
    })
    return statuses(connections)
  }),
  attack('calls that wait for answers, with 7.5 MiB of arguments', 40, async (at, count) => {
    const { body, headers } = modernCall('l_ask', { big }, { elicitation: { form: {} } })
    return tally((await repeat(count, 4, () => send(at, body, headers))).map(({ status }) => status))
  }),
  attack('calls that wait for answers to questions of 200 KiB', 300, async (at, count) => {
    const { body, headers } = modernCall('l_ask', {}, { elicitation: { form: {} } })
    return tally((await repeat(count, 8, () => send(at, body, headers))).map(({ status }) => status))
  }),
  attack('capabilities of 1000 kinds', 1000, async (at, count) =>
    tally(
      (
        await repeat(count, 8, (index) => {
          const kinds = [
            { elicitation: { [`x${index}`]: {} } },
            { extensions: { 'io.modelcontextprotocol/ui': { [`x${index}`]: {} } } },
          ]
          const { body, headers } = modernCall('l_echo', {}, kinds[index % 2] as object)
          return send(at, body, headers)
        })
      ).map(({ status }) => status),
    ),
  ),
  attack('subscriptions to URIs of 7.5 MiB', 50, async (at, count) => {
    const session = await sessionAt(at)
    return tally(
      (
        await repeat(count, 4, (index) =>
          send(at, rpc('resources/subscribe', { uri: `any://${index}${big}` }), session),
        )
      ).map(({ status }) => status),
    )
  }),
  attack('sessions without end', 60_000, async (at, count) =>
    tally((await repeat(count, 16, () => send(at, initialize('2025-11-25')))).map(({ status }) => status)),
  ),
  attack('heads of 60 KiB that never end', 3_000, async (at, count, connections) => {
    const start = `GET /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\n${`x-${'y'.repeat(1000)}: ${'z'.repeat(1000)}\r\n`.repeat(30)}`
    await repeat(count, 16, () => hold(connections, open(at, [start])))
    return {}
  }),
  attack('parts of messages that are no answers', 300, async (at, count, connections) => {
    const session = await sessionAt(at)
    await repeat(count, 8, (index) => hold(connections, post(at, call('l_noise', {}, index), session)))
    return statuses(connections)
  }),
  attack('bodies of errors of 100 MiB', 20, async (at, count) => {
    const { body, headers } = modernCall('m_refuse')
    return tally((await repeat(count, 8, () => send(at, body, headers))).map(({ status }) => status))
  }),
  attack('lists of tools that nobody reads', 500, async (at, count, connections) => {
    const { body, headers } = modern('tools/list')
    await repeat(count, 16, () => hold(connections, post(at, body, headers)))
    return statuses(connections)
  }),
  attack('capabilities nested 200,000 deep', 4, async (at, count) => {
    const deep = `${'{"a":'.repeat(200_000)}1${'}'.repeat(200_000)}`
    return tally(
      (
        await repeat(count, 1, () =>
          send(at, initialize('2025-11-25', { elicitation: 0 }).replace('"elicitation":0', `"elicitation":${deep}`)),
        )
      ).map(({ status }) => status),
    )
  }),
]
