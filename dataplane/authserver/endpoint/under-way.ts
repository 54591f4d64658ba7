import { AsyncLocalStorage } from 'node:async_hooks'
import type { Logger } from 'pino'
import { traceIdOf } from '../../server/log.ts'
import type { Observation } from '../../telemetry/observe.ts'

/** A request that is not answered yet. */
export class RequestUnderWay {
  /** The request id in the answer, the log and the audit log. */
  readonly id: string
  /** The measurement of this request; undefined if nothing is measured. */
  observation: Observation | undefined
  /** The thumbprint of the key that the client has proven to have (DPoP); tokens of this request are bound to it. */
  proofKey: string | undefined
  readonly #serverLog: Logger
  #log: Logger | undefined

  constructor(id: string, serverLog: Logger) {
    this.id = id
    this.#serverLog = serverLog
  }

  /** Returns the log that carries the ids of the request and its trace; creates it at the first use. */
  log(): Logger {
    this.#log ??= this.#serverLog.child({ requestId: this.id, ...traceIdOf(this.observation?.trace?.traceparent) })
    return this.#log
  }
}

/**
 * The requests that are not answered yet. Logs and measurements of all work for a request belong to it, wherever that
 * work is done. Work that outlasts a request, or serves several, uses the server's log.
 */
export class RequestsUnderWay {
  readonly #storage = new AsyncLocalStorage<RequestUnderWay>()
  readonly #serverLog: Logger

  constructor(serverLog: Logger) {
    this.#serverLog = serverLog
  }

  answer<T>(id: string, answer: (request: RequestUnderWay) => T): T {
    const request = new RequestUnderWay(id, this.#serverLog)
    return this.#storage.run(request, answer, request)
  }

  /** Returns the log of the current request or, outside of requests, the server's log. */
  readonly log = (): Logger => this.#storage.getStore()?.log() ?? this.#serverLog

  /** Returns the thumbprint of the key that the client of the current request has proven to have. */
  readonly proofKey = (): string | undefined => this.#storage.getStore()?.proofKey

  /** The measurement of the current request. */
  get observation(): Observation | undefined {
    return this.#storage.getStore()?.observation
  }
}
