/** Reads the resources that a process has used from /proc (Linux). */
import { readFileSync } from 'node:fs'

interface Usage {
  /** CPU time in seconds, of all threads. */
  readonly cpu: number
  readonly rss: number
  readonly peak: number
  readonly own: number
}

/** Clock ticks per second: 100 on every Linux architecture that Node runs on. */
const TICKS = 100

/** Throws if the process is gone or there is no /proc. */
export function readUsage(pid: number): Usage {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  // The second field, the name in brackets, may hold anything.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const [user, system] = [Number(fields[11]), Number(fields[12])]
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  const mebibytes = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]) / 1024
  return { cpu: (user + system) / TICKS, rss: mebibytes('VmRSS'), peak: mebibytes('VmHWM'), own: mebibytes('RssAnon') }
}
