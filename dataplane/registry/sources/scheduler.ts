import { isDeepStrictEqual } from 'node:util'
import { type Schedule, type ScheduledSource, type ScheduleOptions, type SyncState, startSchedule } from './schedule.ts'

/** Keeps one schedule a source. */
export interface Scheduler {
  /** Starts what is new, stops what is gone, starts anew what is set otherwise; the rest runs on. */
  apply(sources: readonly ScheduledSource[]): void
  states(): readonly ({ readonly name: string } & SyncState)[]
  /** Stops all; resolves when no sync runs any more. */
  stop(): Promise<void>
}

export function createScheduler(options: ScheduleOptions): Scheduler {
  let schedules: readonly Schedule[] = []

  return {
    apply(sources) {
      const before = new Map(schedules.map((schedule) => [schedule.source.name, schedule]))
      schedules = sources.map((source) => {
        const running = before.get(source.name)
        if (running !== undefined && isDeepStrictEqual(running.source, source)) {
          before.delete(source.name)
          return running
        }
        return startSchedule(source, options)
      })
      for (const schedule of before.values()) void schedule.stop()
    },
    states: () => schedules.map((schedule) => ({ name: schedule.source.name, ...schedule.state() })),
    async stop() {
      await Promise.all(schedules.map((schedule) => schedule.stop()))
    },
  }
}
