/** Policies as a configuration has them. */
export interface PolicySource {
  /** Cedar policies; a text may hold several. */
  readonly policies: readonly string[]
  /** Cedar entities besides callers and what they ask for: JSON text of an array. */
  readonly entitiesJson?: string | undefined
  /** Claim that holds the caller's groups; absent: the first present of `groups`, `roles`, `cognito:groups`. */
  readonly groupClaimName?: string | undefined
  /** Claim that holds more of them. */
  readonly roleClaimName?: string | undefined
  /** Entity type of a group; default `Group`. */
  readonly groupEntityType?: string | undefined
}

/** One thing that is wrong with policies or entities. */
export interface PolicyProblem {
  /** JSON pointer into the source. */
  readonly pointer: string
  /** Begins with the line and column in the text, where the parser tells them. */
  readonly message: string
}

/** Everything that is wrong with a source. */
export class PolicyError extends Error {
  override readonly name = 'PolicyError'
  readonly problems: readonly PolicyProblem[]

  constructor(problems: readonly PolicyProblem[]) {
    super(problems.map(({ pointer, message }) => `${pointer}: ${message}`).join('\n'))
    this.problems = problems
  }
}

/** Entity type of groups where the source names none. */
export const GROUP = 'Group'

/** What policies are asked about. Lists are always given, filtered by these. */
export const actions = ['call_tool', 'get_prompt', 'read_resource'] as const
export type Action = (typeof actions)[number]

/** Actions of the widely used gateway that are never judged here. */
export const listActions: readonly string[] = ['list_tools', 'list_prompts', 'list_resources']

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
