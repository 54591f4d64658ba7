import { isDeepStrictEqual } from 'node:util'
import type { SyncState } from '../sources/format/source.ts'
import { type Schedule, type ScheduledSource, type ScheduleOptions, startSchedule } from './schedule.ts'
import { createSlots } from './slots.ts'

/** Keeps one schedule a source. */
export interface Scheduler {
  /**
   * Starts what is new, stops what is gone, starts anew what is set otherwise; the rest runs on. `before` is how they
   * stood when that was last recorded.
   */
  apply(sources: readonly ScheduledSource[], before?: ReadonlyMap<string, SyncState | undefined>): void
  /** How a source stands; undefined where there is none of this name that is synced. */
  state(name: string): SyncState | undefined
  states(): readonly ({ readonly name: string } & SyncState)[]
  /**
   * Begins a full pass over a source now; false where there is none of this name that is synced. With `wait` it resolves
   * when the pass has ended, well or not: `state` shows which.
   */
  syncNow(name: string, options?: { readonly wait?: boolean }): Promise<boolean>
  /** Stops all; resolves when no sync runs any more. */
  stop(): Promise<void>
}

/** Syncs that run at a time; each holds a connection or a process, and what it has read. */
const AT_A_TIME = 4
/** After this a sync no longer counts against them. */
const SLOW_MS = 10_000

export function createScheduler(options: Omit<ScheduleOptions, 'slots' | 'after'>): Scheduler {
  const slots = createSlots(AT_A_TIME, SLOW_MS)
  let schedules: ReadonlyMap<string, Schedule> = new Map()
  /** What is being stopped, by the name of its source. */
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
          // Two passes over one source would take each other's files and staged entries away.
          const start = () => startSchedule(source, { ...options, slots, after: ending.get(name) }, known?.get(name))
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
