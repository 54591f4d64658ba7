import { Agent, request } from 'undici'
import { BASE_HEADERS, modern } from '../../support/gateway/post.ts'
import { type Attack, attacks } from './attacks.ts'
import type { Connection } from './connection.ts'
import { type AttackedGateway, startAttackedGateway } from './gateway-under-attack.ts'
import { type HostileBackend, startHostileBackend } from './hostile-backend.ts'

const MIB = 1024 * 1024
/** The most bytes of a process under one attack, and under all of them in turn; its container's limit is 512 MiB. */
const MOST_UNDER_ONE = 350 * MIB
const MOST_IN_TURN = 450 * MIB

/** The least number of the other client's calls that are answered under each attack, and the time limit. */
const ENOUGH = 24
const LONGEST_MS = 60_000

export interface Siege {
  readonly name: string
  /** Highest resident set size in bytes during the attack. */
  readonly peak: number
  /** The highest allowed size. */
  readonly most: number
  /** The number of the attacker's requests by status. */
  readonly statuses: Readonly<Record<string, number>>
  /** Answered calls of the other client, and what was wrong with the rest. */
  readonly served: number
  readonly wrong: readonly string[]
  readonly seconds: number
}

/** The other client, at another address, which keeps calling and checks the answers. */
class Neighbour {
  served = 0
  readonly wrong: string[] = []
  readonly #agent = new Agent({ localAddress: '127.0.0.2' })
  readonly #origin: string
  #stopped = false
  readonly #ended: Promise<void>

  constructor(origin: string) {
    this.#origin = origin
    this.#ended = this.#run()
  }

  async #run(): Promise<void> {
    while (!this.#stopped) {
      await this.#call(`n${this.served}`).catch((error) => this.wrong.push((error as Error).message))
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }

  async #call(message: string): Promise<void> {
    const name = 'n_echo'
    const { body, headers } = modern('tools/call', { name, arguments: { message } })
    const answer = await request(`${this.#origin}/mcp`, {
      method: 'POST',
      headers: { ...BASE_HEADERS, ...headers },
      body,
      dispatcher: this.#agent,
    })
    const text = await answer.body.text()
    if (answer.statusCode === 200 && text.includes(`"${message}"`)) this.served++
    else this.wrong.push(`${answer.statusCode} ${text.slice(0, 200)}`)
  }

  /** Continues until it has been served for a while, however short the attack was; gives up after `LONGEST_MS`. */
  async stop(): Promise<void> {
    const deadline = performance.now() + LONGEST_MS
    while (this.served < ENOUGH && performance.now() < deadline) await new Promise((resolve) => setTimeout(resolve, 50))
    this.#stopped = true
    await this.#ended
    await this.#agent.close()
  }
}

/** Waits for the first lists of a gateway that has just started. */
async function waitUntilServed(origin: string): Promise<void> {
  const neighbour = new Neighbour(origin)
  const deadline = performance.now() + LONGEST_MS
  while (neighbour.served === 0 && performance.now() < deadline) await new Promise((resolve) => setTimeout(resolve, 50))
  await neighbour.stop()
}

export interface Plan {
  /** The share of each attack's repetitions; 1 is all of them. */
  readonly share: number
  /** Words in the names of attacks; all attacks without words. */
  readonly words?: readonly string[]
  /** True if each attack gets a new gateway; otherwise it gets that of the earlier attacks. */
  readonly fresh: boolean
}

/** Attacks a gateway in one way after another. An attack's connections are released when the next one begins. */
export async function besiege(plan: Plan, tell: (siege: Siege) => void): Promise<void> {
  const { share, words = [], fresh } = plan
  const wanted = attacks.filter(({ name }) => words.length === 0 || words.some((word) => name.includes(word)))
  for (const group of fresh ? wanted.map((attack) => [attack]) : [wanted]) {
    await withGateway(async (gateway) => {
      for (const [index, attack] of group.entries()) {
        const address = `127.0.1.${index + 1}`
        const count = Math.max(1, Math.ceil(attack.count * share))
        tell({ ...(await runAttack(gateway, attack, { address, count })), most: fresh ? MOST_UNDER_ONE : MOST_IN_TURN })
      }
    })
  }
}

async function withGateway(use: (gateway: AttackedGateway) => Promise<void>): Promise<void> {
  const backends = [
    await startHostileBackend({ era: 'modern', tools: 1000, description: 1000 }),
    await startHostileBackend({ era: 'legacy' }),
    // For attacks that make a backend fail, which opens its circuit breaker for all clients.
    await startHostileBackend({ era: 'modern' }),
  ] as const
  const names = ['m', 'l', 'n']
  const gateway = await startAttackedGateway(backends.map(({ url }, index) => ({ name: names[index], url })))
  try {
    await waitUntilServed(gateway.origin)
    await use(gateway)
  } finally {
    await gateway.close()
    await Promise.all(backends.map((backend: HostileBackend) => backend.close()))
  }
}

interface How {
  /** The attacker's address; each attack has its own rate limits. */
  readonly address: string
  readonly count: number
}

async function runAttack(
  gateway: AttackedGateway,
  attack: Attack,
  { address, count }: How,
): Promise<Omit<Siege, 'most'>> {
  const began = performance.now()
  gateway.forgetPeak()
  const neighbour = new Neighbour(gateway.origin)
  const dispatcher = new Agent({ localAddress: address })
  const connections: Connection[] = []
  let statuses: Record<string, number> = {}
  try {
    const { port, origin } = gateway
    statuses = await attack.run({ port, origin, address, dispatcher }, count, connections)
  } finally {
    await neighbour.stop()
    for (const { socket } of connections) socket.destroy()
    await dispatcher.destroy()
  }
  const { served, wrong } = neighbour
  const seconds = (performance.now() - began) / 1000
  return { name: attack.name, peak: gateway.alive ? gateway.peak() : Number.NaN, statuses, served, wrong, seconds }
}

/** Returns what went wrong; empty if nothing did. */
export function findings({ name, peak, most, served, wrong }: Siege): readonly string[] {
  return [
    ...(peak < most ? [] : [`${name}: ${(peak / MIB).toFixed(0)} MiB`]),
    ...(served >= ENOUGH ? [] : [`${name}: somebody else was served ${served} times`]),
    ...wrong.slice(0, 3).map((text) => `${name}: somebody else got ${text}`),
  ]
}
