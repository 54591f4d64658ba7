import { Worker } from 'node:worker_threads'
import type { Logger } from 'pino'
import { checkedElsewhere, keepRefusal, keepResult, Unchecked } from '../../../dataplane/config/check/long-check.ts'
import type { CheckCall } from './worker.ts'

interface ChecksOptions {
  readonly log: Logger
  /** Milliseconds that one check may take. */
  readonly deadlineMs?: number
  /** Milliseconds after which a thread without work is ended: the policy engine in it takes 60 MB. */
  readonly idleMs?: number
}

/** What was made, or what it waits for: then it is to be made again. */
type Made<T> = { readonly made: T } | { readonly checked: Promise<void> }

interface Waiting {
  readonly unchecked: Unchecked
  readonly done: () => void
}

/** build/bundle.ts searches for this spelling; it puts the worker's own bundle in its place. */
const ENTRY = new URL('./worker.ts', import.meta.url)
/** Our bounds on policies and texts keep a check within a second on a core that is free; a busy node is slower. */
const DEADLINE_MS = 20_000
const IDLE_MS = 60_000
const HEAP = { maxOldGenerationSizeMb: 256 }

/**
 * Checks of what strangers write, in a thread of their own: one at a time, namespaces in turn, each with a deadline. What
 * does not come to an end is refused, and costs the namespaces that wait no more than the deadline.
 */
export class Checks {
  readonly #options: ChecksOptions
  /** By namespace, in the order in which they come to their turn. */
  readonly #waiting = new Map<string, Waiting[]>()
  readonly #underWay = new Map<string, Promise<void>>()
  #worker: Worker | undefined
  #isBusy = false
  #idle: NodeJS.Timeout | undefined

  constructor(options: ChecksOptions) {
    this.#options = options
  }

  /** Checks that wait or are run. */
  get pending(): number {
    return this.#underWay.size
  }

  /** Makes something of what a namespace says, unless a check of it has to be run first: then that is begun. */
  on<T>(namespace: string, make: () => T): Made<T> {
    try {
      return { made: checkedElsewhere(make) }
    } catch (error) {
      if (error instanceof Unchecked) return { checked: this.#check(namespace, error) }
      throw error
    }
  }

  /** Settles when the check's result is known, be it that it was refused. */
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

  /** Has the thread run one check, and calls `then` once, when its result is kept. */
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
      log.warn({ check: unchecked.check, why }, 'a check did not come to an end')
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
    const onExit = () => refuse('can’t be checked: the thread that does it has ended')
    const tooLong = `can’t be checked within ${deadlineMs / 1000} seconds: make it smaller`
    const deadline = setTimeout(() => refuse(tooLong), deadlineMs)
    worker.on('message', onResult).on('error', onError).on('exit', onExit)
    worker.postMessage({ check: unchecked.check, input: unchecked.input } satisfies CheckCall)
  }

  #start(): Worker {
    const worker = new Worker(ENTRY, { resourceLimits: HEAP })
    // Told by whoever waits for a result; without work nobody does.
    worker.on('error', (error) => this.#options.log.debug({ err: error }, 'the thread that checks has failed'))
    worker.on('exit', () => {
      if (this.#worker === worker) this.#worker = undefined
    })
    return worker
  }

  #drop(worker: Worker): void {
    if (this.#worker === worker) this.#worker = undefined
    worker.terminate().catch((error) => this.#options.log.warn({ err: error }, 'a thread could not be ended'))
  }

  /** Ends the thread; what waits is not checked any more. */
  close(): void {
    this.#waiting.clear()
    clearTimeout(this.#idle)
    if (this.#worker !== undefined) this.#drop(this.#worker)
  }

  /** A thread without work keeps nobody from ending, and goes after a while. */
  #rest(): void {
    const worker = this.#worker
    if (worker === undefined) return
    worker.unref()
    this.#idle = setTimeout(() => this.#drop(worker), this.#options.idleMs ?? IDLE_MS).unref()
  }
}
