import type { Action } from './source.ts'

/** What a caller asks for. */
export interface Subject {
  readonly action: Action
  readonly type: 'Tool' | 'Prompt' | 'Resource'
  /** Name or URI as clients know it. */
  readonly id: string
  /** The backend that has it; undefined where none is known to. */
  readonly backend: string | undefined
  /** Annotations of a tool that are true or false. */
  readonly hints: Readonly<Record<string, boolean>>
  /** The same for no other subject. */
  readonly key: string
}
