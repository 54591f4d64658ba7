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
