/** Measures CPU seconds of a process and its descendants on Linux; elsewhere they are unknown. */
import { readdirSync, readFileSync } from 'node:fs'

/** The kernel reports times to programs in hundredths of a second, whatever its own tick is. */
const TICKS = 100
/** Time between two samples. CPU time after the last sample of a process that nobody waits for is not counted. */
const LOOK_MS = 1_000

interface Times {
  readonly parent: number
  /** Distinguishes processes that had the same id one after another. */
  readonly started: string
  /** CPU time of the process, and of its descendants that have ended and were waited for. */
  readonly seconds: number
  readonly ofChildren: number
}

/** proc(5): the program's name is in parentheses and may contain any character; the third field follows them. */
function readTimes(pid: number | 'self'): Times | undefined {
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

/** Returns the CPU seconds of this process and of the children that it has waited for, or undefined if unknown. */
export const readOwnSeconds = (): number | undefined => readTimes('self')?.seconds

let counted = readTimes('self')?.ofChildren ?? 0

/**
 * Returns the CPU seconds of this process's children that have ended since the last call, and of the descendants that
 * they waited for, or undefined if unknown. Call it each time a child has ended.
 */
export function takeEnded(): number | undefined {
  const now = readTimes('self')?.ofChildren
  if (now === undefined) return undefined
  const added = now - counted
  counted = now
  return added
}

interface Member extends Times {
  readonly pid: number
}

/** Follows the descendants of processes, also those that change their group or lose their parent. */
export class CpuWatch {
  readonly #roots = new Map<number, Map<string, Member>>()
  #timer: NodeJS.Timeout | undefined

  add(root: number): void {
    this.#roots.set(root, new Map())
    this.#timer ??= setInterval(() => this.#look(), LOOK_MS).unref()
  }

  /**
   * Returns the CPU seconds of the root's descendants that nobody waited for. Call it once, when the root has just
   * ended.
   */
  end(root: number): number {
    this.#look()
    const members = this.#roots.get(root) ?? new Map<string, Member>()
    this.#roots.delete(root)
    if (this.#roots.size === 0) {
      clearInterval(this.#timer)
      this.#timer = undefined
    }
    let seconds = 0
    // If the last known parent is a descendant too, it has waited for this process, unless the process still runs.
    for (const { pid, parent, started, seconds: own } of members.values()) {
      const isAlive = readTimes(pid)?.started === started
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
        there.filter((one) => one.pid === root || members.has(buildKey(one))).map((one) => [one.pid, one]),
      )
      for (const [pid] of found) for (const child of children.get(pid) ?? []) found.set(child.pid, child)
      for (const one of found.values()) members.set(buildKey(one), one)
    }
  }
}

const buildKey = ({ pid, started }: Member) => `${pid} ${started}`

const isMember = (members: ReadonlyMap<string, Member>, pid: number) =>
  members.values().some((member) => member.pid === pid)

function processes(): Member[] {
  try {
    return readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .flatMap((name) => {
        const times = readTimes(Number(name))
        return times ? [{ pid: Number(name), ...times }] : []
      })
  } catch {
    return []
  }
}
