import type { PublicError } from '../../server/errors.ts'
import type { MoreParams } from '../mcp/message.ts'

/** The interface through which a running workflow uses its request. */

export interface StepCall {
  readonly step: string
  readonly tool: string
  /** JSON text of an object. */
  readonly arguments: string
  /** The client's answers to a question of the tool. */
  readonly more: MoreParams
  /** Ends the call, at the backend as well. */
  readonly ending: Ending
}

export type StepAnswer =
  /** JSON text of the result. */
  | { readonly kind: 'result'; readonly text: string }
  /** The tool asks its client something before it continues; JSON texts. */
  | { readonly kind: 'input'; readonly requests: string; readonly state: string | undefined }

export interface UserAnswer {
  readonly action: 'accept' | 'decline' | 'cancel'
  readonly content: unknown
}

type StepStatus = (Finished | Waiting)['status']

/** A question to the user, as `params` of `elicitation/create`. */
interface Question {
  readonly message: string
  readonly requestedSchema: object
}

export interface Host {
  /** Calls a tool on behalf of the client. Rejects with a StepFailure. */
  call(call: StepCall): Promise<StepAnswer>
  readonly canAsk: boolean
  /**
   * Asks the user while the request waits; undefined if a client is asked by the answer to its request. Rejects with a
   * StepFailure.
   */
  readonly ask:
    | ((
        question: Question,
        options: { readonly timeoutMs: number; readonly signal: AbortSignal },
      ) => Promise<UserAnswer>)
    | undefined
  /** Holds this many bytes for the run from now on; false if the caller's share has no room. */
  hold(bytes: number): boolean
  stepBegins(step: string): void
  /** Reports that a step has ended or waits for the client: `done` of all `total` steps have ended. */
  stepEnds(step: string, status: StepStatus, progress: { readonly done: number; readonly total: number }): void
}

/**
 * Ends a step's attempts early. An AbortController with a listener costs a tenth of a step, so it is created only on
 * demand.
 */
export class Ending {
  /** The reason; undefined until the end comes. */
  reason: Error | undefined
  /** Called when the end comes, if it has not come yet: stops the work in progress. */
  onEnd: (() => void) | undefined
  #controller: AbortController | undefined

  /** Ends the attempts; only the first call counts. */
  end(reason: Error): void {
    if (this.reason !== undefined) return
    this.reason = reason
    this.#controller?.abort(reason)
    this.onEnd?.()
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      if (this.reason !== undefined) this.#controller.abort(this.reason)
    }
    return this.#controller.signal
  }
}

/** The result of a step, or of one item of a forEach. */
export interface Finished {
  readonly status: 'completed' | 'failed' | 'skipped'
  /** The output that templates see; undefined if there is none. */
  readonly output?: unknown
  readonly error?: string
  /** The user's action in an elicitation. */
  readonly action?: string
  readonly content?: unknown
  /** Tells that the remaining steps are skipped. */
  readonly skipsRest?: boolean
  /** JSON text of a tool's result, if that is the result of the workflow. */
  readonly result?: string
}

/** A step that continues with the client's next request. */
export interface Waiting {
  readonly status: 'waiting'
  /** Requests to the client, by key; JSON texts. */
  readonly requests: Readonly<Record<string, string>>
  /** The state with which the tool that asks continues. */
  readonly state: string | undefined
  /** Milliseconds since 1970. */
  readonly since: number
}

/** The progress of a run when its client is asked something. */
export interface Progress {
  /** Milliseconds since 1970. */
  readonly startedAt: number
  readonly steps: Readonly<Record<string, Finished>>
  /** The items by index of the forEach steps that have begun. */
  readonly items: Readonly<Record<string, Readonly<Record<string, Finished>>>>
  /** Steps and items that wait, by their keys. */
  readonly waiting: Readonly<Record<string, { readonly state?: string; readonly since: number }>>
}

interface FailureDetail {
  readonly isFinal?: boolean
  readonly answer?: PublicError | undefined
}

/** The failure of a step; the message is for the client. */
export class StepFailure extends Error {
  override readonly name = 'StepFailure'
  /** Tells that another attempt would fail in the same way. */
  readonly isFinal: boolean
  /** The error with which a client is answered if the workflow ends by it; undefined: an error result. */
  readonly answer: PublicError | undefined

  constructor(message: string, { isFinal = false, answer }: FailureDetail = {}) {
    super(message)
    this.isFinal = isFinal
    this.answer = answer
  }
}
