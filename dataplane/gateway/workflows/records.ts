/** What has become of a step, or of one item of a forEach. */
export interface Finished {
  readonly status: 'completed' | 'failed' | 'skipped'
  /** What templates see: undefined where there is none. */
  readonly output?: unknown
  readonly error?: string
  /** Of an elicitation. */
  readonly action?: string
  readonly content?: unknown
  /** Nothing that is left is to be done. */
  readonly skipsRest?: boolean
  /** JSON text of a tool's result, where that is the result of the workflow. */
  readonly result?: string
}

/** A step that goes on with the client's next request. */
export interface Waiting {
  readonly status: 'waiting'
  /** Requests to the client, by key; JSON texts. */
  readonly requests: Readonly<Record<string, string>>
  /** State of the tool that asks, for it to go on. */
  readonly state: string | undefined
  /** Milliseconds since 1970. */
  readonly since: number
}

/** How far a run has come when its client is asked something. */
export interface Progress {
  /** Milliseconds since 1970. */
  readonly startedAt: number
  readonly steps: Readonly<Record<string, Finished>>
  /** Of forEach steps that have begun: items by index. */
  readonly items: Readonly<Record<string, Readonly<Record<string, Finished>>>>
  /** Steps and items that wait, by their keys. */
  readonly waiting: Readonly<Record<string, { readonly state?: string; readonly since: number }>>
}
