/** Something that tests use and that a machine may lack. */
export interface Need {
  /** How people call it. */
  readonly name: string
  readonly present: () => boolean
  /** Debian packages that bring it; empty where none does. */
  readonly debian: readonly string[]
  /** Ubuntu has it as a snap alone, which sees no temporary folders. */
  readonly notOnUbuntu?: boolean
  /** The same for Homebrew, where its formulae have other names. */
  readonly brew?: readonly string[]
  /** What to get where no package brings it. */
  readonly hint?: string
  /** Makes it here, in place of a package; `progress` takes what it is at. Throws with the output of what failed. */
  readonly make?: (progress: (state: string) => void) => Promise<void>
  /** Minutes on two cores that `make` takes. */
  readonly minutes?: number
  /** What `make` can't do without. */
  readonly by?: readonly Need[]
}
