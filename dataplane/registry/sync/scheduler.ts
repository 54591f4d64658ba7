import { isDeepStrictEqual } from 'node:util'
import type { SyncState } from '../sources/format/source.ts'
import { type Schedule, type ScheduledSource, type ScheduleOptions, startSchedule } from './schedule.ts'
import { createSemaphore } from './semaphore.ts'

export interface Scheduler {
  /** Starts new sources, stops removed ones, restarts changed ones. `before`: their last recorded state. */
  apply(sources: readonly ScheduledSource[], before?: ReadonlyMap<string, SyncState | undefined>): void
  /** Returns the state of a source; undefined if no synced source has this name. */
  state(name: string): SyncState | undefined
  states(): readonly ({ readonly name: string } & SyncState)[]
  /** Starts a full pass now; false if there is no such source. With `wait` it resolves at the end, well or not. */
  syncNow(name: string, options?: { readonly wait?: boolean }): Promise<boolean>
  stop(): Promise<void>
}

/** The most syncs at a time. Each holds a connection or a process, and its content. */
const AT_A_TIME = 4
/** After this time a sync gives its place to the next. */
const SLOW_MS = 10_000

export function createScheduler(options: Omit<ScheduleOptions, 'semaphore' | 'after'>): Scheduler {
  const semaphore = createSemaphore(AT_A_TIME, SLOW_MS)
  let schedules: ReadonlyMap<string, Schedule> = new Map()
  /** The schedules that are ending, by the name of their source. */
  const ending = new Map<string, Promise<unknown>>()

  function end(name: string, schedule: Schedule): void {
    const ended = Promise.all([ending.get(name), schedule.stop()]).finally(() => {
      if (ending.get(name) === ended) ending.delete(name)
    })
    ending.set(name, ended)
  }

  return {
    apply(sources, known) {
      const wanted = new Map(sources.map((source) => [source.name, source]))
      const kept = new Map<string, Schedule>()
      for (const [name, schedule] of schedules)
        if (isDeepStrictEqual(schedule.source, wanted.get(name))) kept.set(name, schedule)
        else end(name, schedule)
      schedules = new Map(
        sources.map((source) => {
          const { name } = source
          // Two passes over one source would remove each other's files and staged entries.
          const start = () =>
            startSchedule(source, { ...options, semaphore, after: ending.get(name) }, known?.get(name))
          return [name, kept.get(name) ?? start()]
        }),
      )
    },
    state: (name) => schedules.get(name)?.state(),
    states: () => [...schedules].map(([name, schedule]) => ({ name, ...schedule.state() })),
    async syncNow(name, { wait = false } = {}) {
      const schedule = schedules.get(name)
      if (schedule === undefined) return false
      const run = schedule.run(true)
      if (wait) await run
      return true
    },
    async stop() {
      await Promise.all([...ending.values(), ...[...schedules.values()].map((schedule) => schedule.stop())])
    },
  }
}
