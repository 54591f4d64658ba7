/** The state that the instances of one server share. */
export interface World {
  /** True if one more tool, prompt and resource are shown. */
  grown: boolean
  /** The calls of `slow` that have begun and that were cancelled. */
  began: number
  cancelled: number
  /** Adds them and notifies all clients. */
  grow(): void
  /** Notifies all clients that `test://fixed` has changed. */
  touch(): unknown
}
