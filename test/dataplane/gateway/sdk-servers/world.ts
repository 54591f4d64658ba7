/** What the instances of one server share. */
export interface World {
  /** Whether it shows one more tool, prompt and resource. */
  grown: boolean
  /** Calls of `slow` that have begun, and that were cancelled. */
  began: number
  cancelled: number
  /** Adds them and tells everybody. */
  grow(): void
  /** Tells everybody that `test://fixed` has changed. */
  touch(): unknown
}
