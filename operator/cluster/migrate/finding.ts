/** What there is to say of a migrated text: `error` has no counterpart, `note` was left as it is. */
export interface MigrationFinding {
  readonly severity: 'error' | 'note'
  readonly line: number
  readonly message: string
}
