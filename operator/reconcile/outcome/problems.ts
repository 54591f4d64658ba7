/** What keeps an object from being served as it stands, gathered while a plan is put together. */

/** Conditions that a problem can make False. In this order the first one speaks in `Ready`. */
export const problemConditions = ['Valid', 'ReferencesResolved', 'PodTemplateValid'] as const

type ProblemCondition = (typeof problemConditions)[number]

export interface Problem {
  readonly condition: ProblemCondition
  /** CamelCase, for programs. */
  readonly reason: string
  /** For people; names what is missing or wrong. */
  readonly message: string
}

export interface Problems {
  add(condition: ProblemCondition, reason: string, message: string): void
  /** The problems of one condition, in the order in which they were found, each text once. */
  of(condition: ProblemCondition): readonly Problem[]
  /** All of them, by condition. */
  all(): readonly Problem[]
  readonly none: boolean
}

export function startProblems(): Problems {
  const found = new Map<string, Problem>()
  const of = (condition: ProblemCondition) => [...found.values()].filter((problem) => problem.condition === condition)
  return {
    add(condition, reason, message) {
      found.set(`${condition} ${message}`, { condition, reason, message })
    },
    of,
    all: () => problemConditions.flatMap(of),
    get none() {
      return found.size === 0
    },
  }
}

/** All messages of one condition as one text. */
export const joined = (problems: readonly Problem[]): string => problems.map(({ message }) => message).join('; ')
