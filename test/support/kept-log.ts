import type { Logger } from 'pino'
import { createLog } from '../../dataplane/server/log.ts'
import { outputWatch } from '../secrets/watch.ts'

/** A real log that keeps its lines instead of writing them. */
export function recordLog(): {
  readonly log: Logger
  readonly lines: Record<string, unknown>[]
  readonly text: () => string
} {
  const raw: string[] = []
  const lines: Record<string, unknown>[] = []
  const watch = outputWatch('kept-log')
  const log = createLog({
    name: 'test',
    level: 'trace',
    destination: {
      write(line: string) {
        raw.push(line)
        watch(line)
        lines.push(JSON.parse(line))
      },
    },
  })
  return { log, lines, text: () => raw.join('') }
}
