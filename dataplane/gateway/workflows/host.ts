import type { MoreParams } from '../mcp/tool-call.ts'
import type { Finished, Waiting } from './records.ts'

/** What a running workflow needs of the request that it is run for. */

/** A tool that a step calls. */
export interface StepCall {
  /** Id of the step. */
  readonly step: string
  readonly tool: string
  /** JSON text of an object. */
  readonly arguments: string
  /** What the client has answered to a question of the tool. */
  readonly more: MoreParams
  /** Ends the call, at the backend as well. */
  readonly ending: Ending
}

/** What comes of it. */
export type StepAnswer =
  /** JSON text of the result. */
  | { readonly kind: 'result'; readonly text: string }
  /** The tool asks its client something before it goes on; JSON texts. */
  | { readonly kind: 'input'; readonly requests: string; readonly state: string | undefined }

/** What a user has answered. */
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
  /** Whether the client can be asked. */
  readonly canAsk: boolean
  /**
   * Asks the user while the request waits; undefined where a client is asked by the answer to its request. Rejects with a
   * StepFailure.
   */
  readonly ask:
    | ((
        question: Question,
        options: { readonly timeoutMs: number; readonly signal: AbortSignal },
      ) => Promise<UserAnswer>)
    | undefined
  /** Holds so many bytes for the run from now on; false where the caller's share has no room. */
  hold(bytes: number): boolean
  /** A step begins, or goes on. */
  stepBegins(step: string): void
  /** It has ended, or waits for the client: `done` of all `total` have ended. */
  stepEnds(step: string, status: StepStatus, progress: { readonly done: number; readonly total: number }): void
}

/**
 * The end of the attempts at a step that comes before their own. In place of an AbortController with a listener, which
 * takes a tenth of what else a step costs; there is one for whoever needs it.
 */
export class Ending {
  /** Why; undefined until it comes. */
  reason: Error | undefined
  /** Called when it comes, where it hasn't yet: what is under way is to end. */
  onEnd: (() => void) | undefined
  #controller: AbortController | undefined

  /** The first call counts. */
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
