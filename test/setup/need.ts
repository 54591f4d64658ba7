/** Something that tests use and that a machine may lack. */
export interface Need {
  /** The name for people. */
  readonly name: string
  readonly present: () => boolean
  /** Debian packages that contain it; empty if there are none. */
  readonly debian: readonly string[]
  /** On Ubuntu it is only available as a snap, which cannot read temporary folders. */
  readonly notOnUbuntu?: boolean
  /** Homebrew formulae, if their names differ. */
  readonly brew?: readonly string[]
  /** The program that the user must install if no package contains it. */
  readonly hint?: string
  /** Makes it here, without a package, and reports to `progress`. Throws with the output of a failed command. */
  readonly make?: (progress: (state: string) => void) => Promise<void>
  /** Minutes that `make` takes on two cores. */
  readonly minutes?: number
  /** If both are made, that one is made before: this one reuses what it has compiled, and takes a tenth of the time. */
  readonly after?: Need
  /** The needs of `make`. */
  readonly by?: readonly Need[]
}
