import type { ValueFinding } from '../../crds/settings/json.ts'

export interface PolicySource {
  /** Cedar policies; a text may hold several. */
  readonly policies: readonly string[]
  /** Cedar entities besides callers and resources: the JSON text of an array. */
  readonly entitiesJson?: string | undefined
  /** The claim with the caller's groups; absent: the first present of `groups`, `roles`, `cognito:groups`. */
  readonly groupClaimName?: string | undefined
  readonly roleClaimName?: string | undefined
  readonly groupEntityType?: string | undefined
}

/** Messages begin with line and column in the text if the parser gives them. */
export class PolicyError extends Error {
  override readonly name = 'PolicyError'
  readonly problems: readonly ValueFinding[]

  constructor(problems: readonly ValueFinding[]) {
    super(problems.map(({ pointer, message }) => `${pointer}: ${message}`).join('\n'))
    this.problems = problems
  }
}

export const GROUP = 'Group'

/** The actions that policies decide. Lists are always allowed and filtered by these decisions. */
export const actions = ['call_tool', 'get_prompt', 'read_resource'] as const
export type Action = (typeof actions)[number]

/** Actions of the widely used gateway that are never evaluated here. */
export const listActions: readonly string[] = ['list_tools', 'list_prompts', 'list_resources']

export interface Subject {
  readonly action: Action
  readonly type: 'Tool' | 'Prompt' | 'Resource'
  readonly id: string
  /** The backend that has the object; undefined if unknown. */
  readonly backend: string | undefined
  /** The URI of the nearest listed SKILL.md of a resource; absent if it belongs to no skill. */
  readonly skill?: string | undefined
  /** The boolean annotations of a tool. */
  readonly hints: Readonly<Record<string, boolean>>
  readonly key: string
}
