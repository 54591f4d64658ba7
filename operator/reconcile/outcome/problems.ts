import { withoutUrlSecrets } from '../../../dataplane/config/url-secrets.ts'
import type { ObjectName } from '../../model/view.ts'

/** What keeps an object from being served as it stands, gathered while a plan is put together. */

/** Conditions that a problem can make False. In this order the first one speaks in `Ready`. */
export const problemConditions = ['Valid', 'ReferencesResolved', 'PodTemplateValid'] as const

type ProblemCondition = (typeof problemConditions)[number]

/** What is wrong, and with what. */
export interface ProblemDetail {
  /** For people. Where there is a pointer: what is wrong with the value that it names. */
  readonly message: string
  /** JSON pointer (RFC 6901) into the object. */
  readonly pointer?: string
  /** What stands between pointer and message in a text; a colon and a space where nothing is said. */
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
  /** All of them, by condition. */
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

/** A problem as a condition tells it: the pointer, where there is one, and what is wrong. */
export const problemText = ({ pointer, joint = ': ', message }: ProblemDetail): string =>
  pointer === undefined || pointer === '' ? message : `${pointer}${joint}${message}`

/** All texts of some problems as one. */
export const joined = (problems: readonly ProblemDetail[]): string => problems.map(problemText).join('; ')

/** A problem as it may be shown: as conditions have it, without the secrets that URLs carry. */
export const withoutSecrets = (problem: Problem): Problem => ({
  ...problem,
  message: withoutUrlSecrets(problem.message),
})
