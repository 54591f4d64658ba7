import { createServer } from 'node:net'

/** Whether something could listen on the port now. */
export function isPortFree(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer()
    probe.once('error', () => resolve(false))
    probe.listen({ host, port, exclusive: true }, () => probe.close(() => resolve(true)))
  })
}

function anyFreePort(host: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer()
    probe.once('error', reject)
    probe.listen({ host, port: 0 }, () => {
      const address = probe.address()
      probe.close(() => resolve(typeof address === 'object' && address ? address.port : 0))
    })
  })
}

/**
 * Ports by the name of what listens on them. A name keeps its port for as long as it is wanted, also from one run to
 * the next where that is possible.
 */
export class Ports {
  readonly #assigned: Map<string, number>

  constructor(remembered: Readonly<Record<string, number>> = {}) {
    this.#assigned = new Map(Object.entries(remembered))
  }

  get(name: string): number | undefined {
    return this.#assigned.get(name)
  }

  /** A port that the owner of the manifest chose. */
  fix(name: string, port: number): number {
    this.#assigned.set(name, port)
    return port
  }

  /** The name's port, if it lies in the row from `first` on, else the first one of the row that no other name has. */
  next(name: string, first: number, isInRow: (port: number) => boolean = (port) => port >= first && port < first + 100) {
    const before = this.#assigned.get(name)
    if (before !== undefined && isInRow(before)) return before
    const used = new Set(this.#assigned.values())
    let port = first
    while (used.has(port)) port++
    return this.fix(name, port)
  }

  /** The name's port while it is free (or `inUse` by the name itself), else any free one. */
  async free(name: string, host: string, inUse: boolean): Promise<number> {
    const before = this.#assigned.get(name)
    if (before !== undefined && (inUse || (await isPortFree(host, before)))) return before
    const used = new Set(this.#assigned.values())
    let port = await anyFreePort(host)
    while (used.has(port)) port = await anyFreePort(host)
    return this.fix(name, port)
  }

  /** Forgets the names that aren't wanted any more. */
  keep(names: ReadonlySet<string>): void {
    for (const name of this.#assigned.keys()) if (!names.has(name)) this.#assigned.delete(name)
  }

  toJSON(): Record<string, number> {
    return Object.fromEntries([...this.#assigned].sort(([left], [right]) => (left < right ? -1 : 1)))
  }
}
