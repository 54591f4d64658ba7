import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'
import { type ObjectId, objectKey } from '../../cluster/files/index.ts'

export interface WorkloadPorts {
  readonly host: string
  readonly listen: number
  readonly admin: number
  /** The port of the MCP server beside the data plane. */
  readonly server: number
}

interface PortRequest {
  readonly id: ObjectId
  /** The annotation `local-port`. */
  readonly fixed: string | undefined
  /** Its processes run, and so hold its ports. */
  readonly isUp: boolean
}

/** The first public ports of kinds that people connect to. Further ones count up. */
const FIRST_PORTS: Readonly<Record<string, number>> = { VirtualMCPServer: 4483, MCPRegistry: 8080 }

/**
 * The range of free ports. It is below the ephemeral ports (from 32768 on by default), so that the system gives none of
 * them to outgoing connections or to servers on port 0, between choice and use or between two runs.
 */
const [FIRST_FREE, END_FREE] = [20_000, 30_000]
/** The most ports that are tried. */
const MOST_TRIED = 1_000

const LOOPBACK = '127.0.0.1'
/** Tells whether an address is a wildcard, which is reached through loopback. */
const isWildcard = (host: string) => host === '0.0.0.0' || host === '::'

const isPort = (text: string) => /^[0-9]{1,5}$/.test(text) && Number(text) >= 1 && Number(text) <= 65_535

/** The ports given in one assignment. */
class TakenPorts {
  readonly owners = new Map<number, ObjectId>()
  readonly listenPorts = new Map<string, number>()

  listen(id: ObjectId, port: number): void {
    this.owners.set(port, id)
    this.listenPorts.set(objectKey(id), port)
  }
}

/** Gives workloads that people connect to ports that count up from the first of their kind. */
function takeForeseeable(
  requests: readonly PortRequest[],
  taken: TakenPorts,
  before: ReadonlyMap<string, WorkloadPorts>,
): void {
  const numbered = requests.filter(({ id, fixed }) => fixed === undefined && FIRST_PORTS[id.kind] !== undefined)
  // Workloads with such a port keep it; new ones come after.
  for (const { id } of numbered) {
    const port = before.get(objectKey(id))?.listen
    const first = FIRST_PORTS[id.kind] ?? 0
    const isInRange = port !== undefined && port >= first && port < first + requests.length
    if (isInRange && !taken.owners.has(port)) taken.listen(id, port)
  }
  for (const { id } of numbered) {
    if (taken.listenPorts.has(objectKey(id))) continue
    let port = FIRST_PORTS[id.kind] ?? 0
    while (taken.owners.has(port)) port++
    taken.listen(id, port)
  }
}

/**
 * Assigns ports: predictable ones to workloads that people connect to, free ones to all others, if possible the same as
 * in the last run.
 */
export class LocalPorts {
  readonly #host: string
  readonly #remembered: Map<string, number>
  readonly #assigned = new Map<string, WorkloadPorts>()
  readonly #problems = new Map<string, string>()

  constructor(host: string, remembered: Readonly<Record<string, number>>) {
    this.#host = host
    this.#remembered = new Map(Object.entries(remembered))
  }

  of(id: ObjectId): WorkloadPorts | undefined {
    return this.#assigned.get(objectKey(id))
  }

  findProblem(id: ObjectId): string | undefined {
    return this.#problems.get(objectKey(id))
  }

  buildUrl(id: ObjectId): string | undefined {
    const ports = this.of(id)
    if (!ports) return undefined
    const host = isWildcard(ports.host) ? LOOPBACK : ports.host
    return `http://${host.includes(':') ? `[${host}]` : host}:${ports.listen}`
  }

  /** Gives every workload its ports. Workloads that aren't named lose theirs. */
  async assign(requests: readonly PortRequest[]): Promise<void> {
    const before = new Map(this.#assigned)
    this.#assigned.clear()
    this.#problems.clear()
    const taken = new TakenPorts()
    this.#takeFixed(requests, taken)
    takeForeseeable(requests, taken, before)
    for (const { id, isUp } of requests) {
      const free = (part: string) => this.#free(`${objectKey(id)} ${part}`, isUp, taken.owners, id)
      const listen = taken.listenPorts.get(objectKey(id))
      const isPublic = listen !== undefined
      const admin = await free('admin')
      const server = await free('server')
      this.#assigned.set(objectKey(id), {
        host: isPublic ? this.#host : LOOPBACK,
        listen: listen ?? (await free('listen')),
        admin,
        server,
      })
    }
  }

  /** Gives the ports that owners chose, and records problems of those that aren't available. */
  #takeFixed(requests: readonly PortRequest[], taken: TakenPorts): void {
    for (const { id, fixed } of requests) {
      if (fixed === undefined) continue
      const other = taken.owners.get(Number(fixed))
      if (!isPort(fixed)) this.#problems.set(objectKey(id), `local-port must be a port, not ${JSON.stringify(fixed)}`)
      else if (other) {
        const message = `local-port ${fixed} is already that of ${other.kind} ${other.namespace}/${other.name}`
        this.#problems.set(objectKey(id), message)
      } else taken.listen(id, Number(fixed))
    }
  }

  async #free(name: string, isUp: boolean, used: Map<number, ObjectId>, id: ObjectId): Promise<number> {
    const before = this.#remembered.get(name)
    const keeps = before !== undefined && !used.has(before) && (isUp || (await isPortFree(LOOPBACK, before)))
    let port = keeps ? before : await findFreePort(LOOPBACK)
    while (used.has(port)) port = await findFreePort(LOOPBACK)
    used.set(port, id)
    this.#remembered.set(name, port)
    return port
  }

  /** Returns the ports to remember: those of existing workloads. */
  toJSON(): Record<string, number> {
    const present = [...this.#remembered].filter(([name]) => this.#assigned.has(name.slice(0, name.lastIndexOf(' '))))
    return Object.fromEntries(present.sort(([left], [right]) => (left < right ? -1 : 1)))
  }
}

/** Returns the error code of listening on the port now, such as EADDRINUSE, or undefined. */
export function listenError(host: string, port: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const probe = createServer()
    probe.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message))
    probe.listen({ host, port, exclusive: true }, () => probe.close(() => resolve(undefined)))
  })
}

const isPortFree = async (host: string, port: number): Promise<boolean> => (await listenError(host, port)) === undefined

async function findFreePort(host: string): Promise<number> {
  for (let count = 0; count < MOST_TRIED; count++) {
    const port = randomInt(FIRST_FREE, END_FREE)
    if (await isPortFree(host, port)) return port
  }
  throw new Error(`no port of ${host} from ${FIRST_FREE} to ${END_FREE - 1} is free`)
}
