import { withoutUrlSecrets } from '../../../dataplane/config/url-secrets.ts'
import type { ObjectName } from '../../model/view.ts'

/** Problems that keep an object from being served in its current form, collected while a plan is built. */

/** Conditions that a problem can make False. `Ready` reports the first of them in this order. */
export const problemConditions = ['Valid', 'ReferencesResolved', 'PodTemplateValid', 'ProofReady'] as const

type ProblemCondition = (typeof problemConditions)[number]

/** The problem and the object or field that has it. */
export interface ProblemDetail {
  readonly message: string
  readonly pointer?: string
  /** The separator of pointer and message in a text. The default is a colon and a space. */
  readonly joint?: ': ' | ' ' | ', '
  /** Another object that this one refers to and that the message is about. */
  readonly about?: ObjectName
}

export interface Problem extends ProblemDetail {
  readonly condition: ProblemCondition
  /** CamelCase, for programs. */
  readonly reason: string
}

export interface Problems {
  add(condition: ProblemCondition, reason: string, detail: ProblemDetail): void
  /** The problems of one condition, in the order in which they were found, each text once. */
  of(condition: ProblemCondition): readonly Problem[]
  all(): readonly Problem[]
  readonly none: boolean
}

export function startProblems(): Problems {
  const found = new Map<string, Problem>()
  const of = (condition: ProblemCondition) => [...found.values()].filter((problem) => problem.condition === condition)
  return {
    add(condition, reason, detail) {
      found.set(`${condition} ${problemText(detail)}`, { condition, reason, ...detail })
    },
    of,
    all: () => problemConditions.flatMap(of),
    get none() {
      return found.size === 0
    },
  }
}

/** Returns a problem's text in a condition: the pointer, if there is one, and what is wrong. */
export const problemText = ({ pointer, joint = ': ', message }: ProblemDetail): string =>
  pointer === undefined || pointer === '' ? message : `${pointer}${joint}${message}`

export const joined = (problems: readonly ProblemDetail[]): string => problems.map(problemText).join('; ')

/** Removes the secrets that URLs carry from a problem's text, as conditions do. */
export const withoutSecrets = (problem: Problem): Problem => ({
  ...problem,
  message: withoutUrlSecrets(problem.message),
})
