/** What a backend said when a session was opened. */
export interface Opened {
  /** Absent where the backend keeps no sessions. */
  readonly sessionId: string | undefined
  readonly revision: string
  readonly capabilities: Readonly<Record<string, unknown>>
}
