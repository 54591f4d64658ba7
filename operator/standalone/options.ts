import type { Report } from './report.ts'

export interface StandaloneOptions {
  /** Files and folders of manifests. */
  readonly paths: readonly string[]
  /** Folder for everything that is written. */
  readonly state: string
  /** Address of the listeners that people use. */
  readonly host: string
  readonly group: string | undefined
  /** What a `podTemplateSpec` may ask for, as in a cluster. */
  readonly podTemplate?: 'baseline' | 'any'
  /** The command line that runs Portico itself. */
  readonly self: readonly string[]
  readonly environment: Readonly<Record<string, string | undefined>>
  /** Called when the set is ready and whenever it has changed; `changes` says what changed, for people. */
  readonly onReport: (report: Report, changes: readonly string[]) => void
  /** Takes a line for people. */
  readonly show: (line: string) => void
  /** Whether people see what the processes write, too; it is in the log in any case. */
  readonly isVerbose: boolean
}
