/** A tool that was found: its number in the list, and how well it fits; the best has the highest. */
export interface Hit {
  readonly tool: number
  readonly score: number
}
