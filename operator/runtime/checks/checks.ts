import { Worker } from 'node:worker_threads'
import type { Logger } from 'pino'
import { checkedElsewhere, keepRefusal, keepResult, Unchecked } from '../../../dataplane/config/check/long-check.ts'
import type { CheckCall } from './worker.ts'

interface ChecksOptions {
  readonly log: Logger
  readonly deadlineMs?: number
  /** The idle time in milliseconds after which the thread ends. Its policy engine takes 60 MB. */
  readonly idleMs?: number
}

/** A result, or the check that must end before the caller makes the result again. */
type Made<T> = { readonly made: T } | { readonly checked: Promise<void> }

interface Waiting {
  readonly unchecked: Unchecked
  readonly done: () => void
}

/** build/bundle.ts searches for this spelling and replaces it with the worker's own bundle. */
const ENTRY = new URL('./worker.ts', import.meta.url)
/**
 * The time limit of a check. Our limits on policies and texts keep one within a second on a free core; a busy node is
 * slower.
 */
const DEADLINE_MS = 20_000
const IDLE_MS = 60_000
const HEAP = { maxOldGenerationSizeMb: 256 }

/**
 * Checks untrusted input in a separate thread, one check at a time, with the namespaces in turn. A check that exceeds
 * its deadline is refused.
 */
export class Checks {
  readonly #options: ChecksOptions
  /** Waiting checks by namespace, in the order of their turns. */
  readonly #waiting = new Map<string, Waiting[]>()
  readonly #underWay = new Map<string, Promise<void>>()
  #worker: Worker | undefined
  #isBusy = false
  #idle: NodeJS.Timeout | undefined

  constructor(options: ChecksOptions) {
    this.#options = options
  }

  get pending(): number {
    return this.#underWay.size
  }

  /** Makes a result from the input of a namespace. If the input must be checked first, it starts that check. */
  on<T>(namespace: string, make: () => T): Made<T> {
    try {
      return { made: checkedElsewhere(make) }
    } catch (error) {
      if (error instanceof Unchecked) return { checked: this.#check(namespace, error) }
      throw error
    }
  }

  /** Starts a check, unless it is running. Resolves when its result is stored, even if that is a refusal. */
  #check(namespace: string, unchecked: Unchecked): Promise<void> {
    const { key } = unchecked
    const known = this.#underWay.get(key)
    if (known !== undefined) return known
    const { promise, resolve } = Promise.withResolvers<void>()
    const done = () => {
      this.#underWay.delete(key)
      resolve()
    }
    this.#underWay.set(key, promise)
    const waiting = this.#waiting.get(namespace)
    if (waiting === undefined) this.#waiting.set(namespace, [{ unchecked, done }])
    else waiting.push({ unchecked, done })
    this.#next()
    return promise
  }

  #next(): void {
    if (this.#isBusy) return
    const [turn] = this.#waiting
    if (turn === undefined) return
    const [namespace, [first, ...others]] = turn
    this.#waiting.delete(namespace)
    if (others.length > 0) this.#waiting.set(namespace, others)
    if (first === undefined) return
    this.#isBusy = true
    this.#run(first.unchecked, () => {
      this.#isBusy = false
      first.done()
      this.#rest()
      this.#next()
    })
  }

  /** Runs one check in the thread, and calls `then` once when its result is stored. */
  #run(unchecked: Unchecked, then: () => void): void {
    clearTimeout(this.#idle)
    const { deadlineMs = DEADLINE_MS, log } = this.#options
    const worker = (this.#worker ??= this.#start())
    worker.ref()
    const end = () => {
      clearTimeout(deadline)
      worker.off('message', onResult).off('error', onError).off('exit', onExit)
    }
    const refuse = (why: string) => {
      end()
      this.#drop(worker)
      log.warn({ check: unchecked.check, why }, 'a check did not end in time')
      keepRefusal(unchecked, why)
      then()
    }
    const onResult = (result: object) => {
      end()
      keepResult(unchecked, result)
      then()
    }
    const onError = (error: NodeJS.ErrnoException) =>
      refuse(
        error.code === 'ERR_WORKER_OUT_OF_MEMORY'
          ? 'can’t be checked in 256 MiB: make it smaller'
          : `can’t be checked: ${error.message}`,
      )
    const onExit = () => refuse('can’t be checked: the checking thread has ended')
    const tooLong = `can’t be checked within ${deadlineMs / 1000} seconds: make it smaller`
    const deadline = setTimeout(() => refuse(tooLong), deadlineMs)
    worker.on('message', onResult).on('error', onError).on('exit', onExit)
    worker.postMessage({ check: unchecked.check, input: unchecked.input } satisfies CheckCall)
  }

  #start(): Worker {
    const worker = new Worker(ENTRY, { resourceLimits: HEAP })
    // A waiting check reports the failure itself. Otherwise nobody depends on the thread.
    worker.on('error', (error) => this.#options.log.debug({ err: error }, 'the checking thread has failed'))
    worker.on('exit', () => {
      if (this.#worker === worker) this.#worker = undefined
    })
    return worker
  }

  #drop(worker: Worker): void {
    if (this.#worker === worker) this.#worker = undefined
    worker.terminate().catch((error) => this.#options.log.warn({ err: error }, 'a thread could not be ended'))
  }

  close(): void {
    this.#waiting.clear()
    clearTimeout(this.#idle)
    if (this.#worker !== undefined) this.#drop(this.#worker)
  }

  /** Keeps the idle thread from holding the process open, and ends it after a while. */
  #rest(): void {
    const worker = this.#worker
    if (worker === undefined) return
    worker.unref()
    this.#idle = setTimeout(() => this.#drop(worker), this.#options.idleMs ?? IDLE_MS).unref()
  }
}
