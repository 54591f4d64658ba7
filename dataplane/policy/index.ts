/** Authorization by Cedar policies: compiled once, asked for each call. */

export type { ReadArguments } from './arguments.ts'
export type { CallNeed, LoginNeed } from './call-need.ts'
export { policyProblems, policyProblemsStepwise } from './compile.ts'
export { type Explanation, Policies } from './policies.ts'
export type { Claims, Principal } from './principal.ts'
export { isCaller, type Question, readQuestion } from './question.ts'
export type { PolicySource, Subject } from './source.ts'
