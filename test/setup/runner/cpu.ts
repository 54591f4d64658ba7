/** CPU seconds of a process and of all that it starts, as Linux shows them; elsewhere they are unknown. */
import { readdirSync, readFileSync } from 'node:fs'

/** The kernel shows times to programs in hundredths of a second, whatever it counts in. */
const TICKS = 100
/** Between two looks at processes. What one uses after the last look, and nobody waits for, is not counted. */
const LOOK_MS = 1_000

interface Times {
  readonly parent: number
  /** Distinguishes processes that had the same number one after the other. */
  readonly started: string
  /** Its own, and those of its children that have ended and that it has waited for, and theirs. */
  readonly seconds: number
  readonly ofChildren: number
}

/** proc(5): the name of the program stands in brackets and may hold any; behind them is the third field. */
function timesOf(pid: number | 'self'): Times | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
    const [user, system, childrenUser, childrenSystem] = fields.slice(11, 15).map(Number) as [
      number,
      number,
      number,
      number,
    ]
    const ofChildren = (childrenUser + childrenSystem) / TICKS
    return {
      parent: Number(fields[1]),
      started: fields[19] as string,
      seconds: (user + system) / TICKS + ofChildren,
      ofChildren,
    }
  } catch {
    return undefined
  }
}

let counted = timesOf('self')?.ofChildren ?? 0

/**
 * CPU seconds of the children of this process that have ended since the last call, and of those that they have waited
 * for; undefined where that is unknown. To be called each time one has ended.
 */
export function takeEnded(): number | undefined {
  const now = timesOf('self')?.ofChildren
  if (now === undefined) return undefined
  const added = now - counted
  counted = now
  return added
}

interface Member extends Times {
  readonly pid: number
}

/** Follows the processes that some processes start, also those that leave their groups or lose their parents. */
export class CpuWatch {
  readonly #roots = new Map<number, Map<string, Member>>()
  #timer: NodeJS.Timeout | undefined

  add(root: number): void {
    this.#roots.set(root, new Map())
    this.#timer ??= setInterval(() => this.#look(), LOOK_MS).unref()
  }

  /** CPU seconds of what the root has started and nobody has waited for; to be called once, when it has just ended. */
  end(root: number): number {
    this.#look()
    const members = this.#roots.get(root) ?? new Map<string, Member>()
    this.#roots.delete(root)
    if (this.#roots.size === 0) {
      clearInterval(this.#timer)
      this.#timer = undefined
    }
    let seconds = 0
    // One whose last known parent is a member as well was waited for by that one, unless it lives.
    for (const { pid, parent, started, seconds: own } of members.values()) {
      const isAlive = timesOf(pid)?.started === started
      if (pid !== root && (isAlive || !(parent === root || isMember(members, parent)))) seconds += own
    }
    return seconds
  }

  #look(): void {
    if (this.#roots.size === 0) return
    const there = processes()
    const children = Map.groupBy(there, ({ parent }) => parent)
    for (const [root, members] of this.#roots) {
      const found = new Map(
        there.filter((one) => one.pid === root || members.has(keyOf(one))).map((one) => [one.pid, one]),
      )
      for (const [pid] of found) for (const child of children.get(pid) ?? []) found.set(child.pid, child)
      for (const one of found.values()) members.set(keyOf(one), one)
    }
  }
}

const keyOf = ({ pid, started }: Member) => `${pid} ${started}`

const isMember = (members: ReadonlyMap<string, Member>, pid: number) =>
  members.values().some((member) => member.pid === pid)

function processes(): Member[] {
  try {
    return readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .flatMap((name) => {
        const times = timesOf(Number(name))
        return times ? [{ pid: Number(name), ...times }] : []
      })
  } catch {
    return []
  }
}
