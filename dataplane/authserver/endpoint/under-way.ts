import { AsyncLocalStorage } from 'node:async_hooks'
import type { Logger } from 'pino'
import { traceIdOf } from '../../server/log.ts'
import type { Observation } from '../../telemetry/observe.ts'

/** A request that is answered. */
export class RequestUnderWay {
  /** By which it is found again: in the answer, in the log and in the audit log. */
  readonly id: string
  /** What is measured of it; undefined where nothing is. */
  observation: Observation | undefined
  readonly #serverLog: Logger
  #log: Logger | undefined

  constructor(id: string, serverLog: Logger) {
    this.id = id
    this.#serverLog = serverLog
  }

  /** Its lines carry the ids of the request and of its trace; made when it is first used. */
  log(): Logger {
    this.#log ??= this.#serverLog.child({ requestId: this.id, ...traceIdOf(this.observation?.trace?.traceparent) })
    return this.#log
  }
}

/**
 * The requests that are answered: whatever is done for one of them, however deep, is told of and measured as a part of it.
 * What outlasts a request, or is done for several, is neither: it is handed the log of the server.
 */
export class RequestsUnderWay {
  readonly #storage = new AsyncLocalStorage<RequestUnderWay>()
  readonly #serverLog: Logger

  constructor(serverLog: Logger) {
    this.#serverLog = serverLog
  }

  /** Answers a request with this id. */
  answer<T>(id: string, answer: (request: RequestUnderWay) => T): T {
    const request = new RequestUnderWay(id, this.#serverLog)
    return this.#storage.run(request, answer, request)
  }

  /** The log of the request that is answered now; outside of all, that of the server. */
  readonly log = (): Logger => this.#storage.getStore()?.log() ?? this.#serverLog

  /** What is measured of the request that is answered now. */
  get observation(): Observation | undefined {
    return this.#storage.getStore()?.observation
  }
}
