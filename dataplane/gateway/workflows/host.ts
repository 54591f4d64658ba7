import type { MoreParams } from '../mcp/tool-call.ts'
import type { Finished, Waiting } from './records.ts'

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

/** The result of a step's call. */
export type StepAnswer =
  /** JSON text of the result. */
  | { readonly kind: 'result'; readonly text: string }
  /** The tool asks its client something before it continues; JSON texts. */
  | { readonly kind: 'input'; readonly requests: string; readonly state: string | undefined }

export interface UserAnswer {
  readonly action: 'accept' | 'decline' | 'cancel'
  readonly content: unknown
}

export type StepStatus = (Finished | Waiting)['status']

/** A question to the user, as `params` of `elicitation/create`. */
export interface Question {
  readonly message: string
  readonly requestedSchema: object
}

export interface Host {
  /** Calls a tool on behalf of the client. Rejects with a StepFailure. */
  call(call: StepCall): Promise<StepAnswer>
  /** Tells whether the client can be asked. */
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
  /** Reports that a step begins or continues. */
  stepBegins(step: string): void
  /** Reports that a step has ended or waits for the client: `done` of all `total` steps have ended. */
  stepEnds(step: string, status: StepStatus, progress: { readonly done: number; readonly total: number }): void
}

/**
 * The early end of a step's attempts. An AbortController with a listener would take a tenth of a step's other costs, so
 * one is created only on demand.
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
